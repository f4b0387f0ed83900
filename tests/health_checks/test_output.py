from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adsum.health_checks.output import Tail


@given(st.lists(st.binary(max_size=50)), st.integers(1, 40))
def test_tail_is_the_end_of_everything(pieces: list[bytes], bytes_max: int) -> None:
    tail = Tail(bytes_max)
    for piece in pieces:
        tail.append(piece)
    whole = b"".join(pieces)
    assert tail.text() == whole[-bytes_max:].decode("utf-8", "replace")
    assert tail.overflowed == (len(whole) > bytes_max)


def test_output_at_the_limit_is_whole_and_one_byte_more_is_announced() -> None:
    tail = Tail(4)
    tail.append(b"abcd")
    assert tail.captured_text() == "abcd"
    tail.append(b"e")
    assert tail.captured_text() == "Captured 4 of 5 bytes\n...\nbcde"
