"""Work beside the loop leaves the interpreter to the loop half of the time."""

from __future__ import annotations

from collections.abc import Iterator

from adsum.servers.resting import with_rests


class Thread:
    """Computes when it is told to, and notes how long it rests."""

    def __init__(self) -> None:
        self.computed_s = 0.0
        self.rests_s: list[float] = []

    def compute(self, duration_s: float) -> None:
        self.computed_s += duration_s

    def pieces(self) -> Iterator[bytes]:
        for piece in (b"a", b"b"):
            self.compute(0.5)
            yield piece


def test_after_each_piece_it_rests_as_long_as_it_computed_before_and_after_it_came() -> None:
    thread, taken = Thread(), b""
    for piece in with_rests(
        thread.pieces(), computed_s=lambda: thread.computed_s, sleep=thread.rests_s.append
    ):
        thread.compute(0.25)
        taken += piece
    assert taken == b"ab"
    assert thread.rests_s == [0.75, 0.75]
