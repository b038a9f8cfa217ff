# SPDX-License-Identifier: Apache-2.0
"""Records a PyTorch training step, for the programs of perfpred to predict its time and memory."""

from perfpred.capture.session import CaptureError, capture
from perfpred.capture.step_file import combine

__all__ = ["CaptureError", "capture", "combine"]
