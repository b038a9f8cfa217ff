# SPDX-License-Identifier: Apache-2.0
"""`python -m perfpred.capture` runs a script and records a step of its training. `perfpred.capture` is a function."""
