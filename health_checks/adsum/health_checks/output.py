"""The last bytes of something that may never end: a body, or what a script prints.

The end is kept because that is where scripts and stack traces say what went wrong. Memory is at most twice
the limit; trimming is amortised, so a flood of single bytes costs no more than one large piece.
"""

from __future__ import annotations


class Tail:
    def __init__(self, bytes_max: int) -> None:
        self.total_bytes = 0
        self._bytes_max = bytes_max
        self._kept = bytearray()

    def append(self, data: bytes | bytearray) -> None:
        self.total_bytes += len(data)
        self._kept += data[-self._bytes_max :]
        if len(self._kept) > 2 * self._bytes_max:
            del self._kept[: -self._bytes_max]

    @property
    def overflowed(self) -> bool:
        return self.total_bytes > self._bytes_max

    def text(self) -> str:
        """Bytes that are not UTF-8 become U+FFFD, as they do in Consul's JSON."""
        return self._kept[-self._bytes_max :].decode("utf-8", "replace")

    def captured_text(self) -> str:
        """As a script check shows it: with a line before it when something is missing."""
        if not self.overflowed:
            return self.text()
        return f"Captured {self._bytes_max} of {self.total_bytes} bytes\n...\n{self.text()}"
