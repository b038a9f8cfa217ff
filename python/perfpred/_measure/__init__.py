# SPDX-License-Identifier: Apache-2.0
"""`perfpred.measure` is a context manager, which times training steps of the program around it and writes runs.csv."""
