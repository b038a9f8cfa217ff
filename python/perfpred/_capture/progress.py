# SPDX-License-Identifier: Apache-2.0
"""How far a capture or a measurement is, for people who watch."""

import sys
import threading
import time

_EVERY_SEC = 0.5  # what is done before shows nothing


class Line:
    """A line of a terminal that is kept up to date; of a file or pipe nothing is written."""

    def __init__(self, file):
        self._terminal = file if file is not None and file.isatty() else None
        self._written = time.monotonic()
        self._shown = False

    def write(self, text):
        """Shows text(), unless it is soon after the last one."""
        now = time.monotonic()
        if self._terminal is not None and now - self._written >= _EVERY_SEC:
            self._terminal.write(f"\r{text()}\x1b[K")
            self._terminal.flush()
            self._written, self._shown = now, True

    def clear(self):
        if self._terminal is not None and self._shown:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()
            self._shown = False


class Progress:
    """Keeps a line of a terminal up to date while it is entered; where standard error is none, it says nothing."""

    def __init__(self, name):
        self.state = lambda: (
            "",
            0.0,
        )  # what is being done, and what share of all is done; called on another thread
        self._name = name
        self._ended = threading.Event()
        self._line = Line(sys.stderr)  # a script may put another file there
        self._thread = (
            threading.Thread(target=self._show, daemon=True)
            if sys.stderr.isatty()
            else None
        )

    def __enter__(self):
        self._begun = time.monotonic()
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _text(self):
        text, share = self.state()
        sec = time.monotonic() - self._begun
        left = f", {sec / share * (1 - share):.0f} s left" if share > 0 else ""
        return f"{self._name}: {text}, {sec:.0f} s{left}"

    def _show(self):
        while not self._ended.wait(_EVERY_SEC):
            self._line.write(self._text)
        self._line.clear()
