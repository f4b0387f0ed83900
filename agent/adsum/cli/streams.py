"""What a caller closed (`>&-`), opened on nothing: or Python would have None there, and the next file or
socket would get its number, and with it what libraries write to that."""

from __future__ import annotations

import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper


class ClosedOutput(TextIOWrapper):
    """Fails when it is flushed, as a full disk does: a command that has nothing to say is none the worse."""

    def __init__(self) -> None:
        super().__init__(BufferedWriter(FileIO(os.open(os.devnull, os.O_RDONLY), "w")))


def open_closed_streams() -> None:
    # In this order, since each gets the lowest free number.
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 - held for life
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - held for life
