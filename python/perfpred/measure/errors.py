# SPDX-License-Identifier: Apache-2.0
"""What `perfpred.measure` refuses."""


class MeasureError(Exception):
    """A run cannot be measured or written; the message is one line and says what to do."""
