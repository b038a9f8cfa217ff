# SPDX-License-Identifier: Apache-2.0
"""How far a capture is, for people who watch."""

import sys
import threading
import time

_EVERY_SEC = 0.5  # what is done before shows nothing


class Progress:
    """Keeps a line of a terminal up to date while it is entered; where standard error is none, it says nothing."""

    def __init__(self, name):
        self.state = lambda: ("", 0.0)  # what is being done, and what share of all is done; called on another thread
        self._name = name
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True) if sys.stderr.isatty() else None

    def __enter__(self):
        self._begun = time.monotonic()
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self):
        shown, terminal = False, sys.stderr  # a script may put another file there
        while not self._ended.wait(_EVERY_SEC):
            text, share = self.state()
            sec = time.monotonic() - self._begun
            left = f", {sec / share * (1 - share):.0f} s left" if share > 0 else ""
            terminal.write(f"\r{self._name}: {text}, {sec:.0f} s{left}\x1b[K")
            terminal.flush()
            shown = True
        if shown:
            terminal.write("\r\x1b[K")
            terminal.flush()
