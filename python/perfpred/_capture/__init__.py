# SPDX-License-Identifier: Apache-2.0
"""Records training steps of PyTorch: the context manager `perfpred.capture`, and `python -m perfpred.capture`."""
