# SPDX-License-Identifier: Apache-2.0
"""Records a PyTorch training step, for the programs of perfpred to predict its time and memory, or measures it."""

from perfpred.capture.session import CaptureError, capture
from perfpred.capture.step_file import combine
from perfpred.measure.session import MeasureError, measure

__all__ = ["CaptureError", "MeasureError", "capture", "combine", "measure"]
