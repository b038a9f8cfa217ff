# SPDX-License-Identifier: Apache-2.0
"""`perfpred.capture` is a context manager; `python -m perfpred.capture` runs a script under it."""
