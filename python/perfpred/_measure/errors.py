# SPDX-License-Identifier: Apache-2.0
"""What `perfpred.measure` refuses."""

from perfpred._library import Error


class MeasureError(Error):
    """A run cannot be measured or written; the message is one line and says what to do."""
