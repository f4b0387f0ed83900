from __future__ import annotations

from adsum.newest import keep_newest


def kept_after(*keys: str) -> dict[str, int]:
    kept: dict[str, int] = {}
    for number, key in enumerate(keys):
        keep_newest(kept, key, number, 3)
    return kept


def test_the_oldest_makes_room() -> None:
    assert kept_after("a", "b", "c", "d") == {"b": 1, "c": 2, "d": 3}


def test_what_comes_again_is_the_newest_and_takes_nobodys_place() -> None:
    assert kept_after("a", "b", "c", "b") == {"a": 0, "c": 2, "b": 3}
    assert list(kept_after("a", "b", "c", "a", "d")) == ["c", "a", "d"]


def test_what_is_over_a_limit_that_has_become_smaller_goes_at_the_next() -> None:
    kept = kept_after("a", "b", "c")
    keep_newest(kept, "d", 3, 2)
    assert list(kept) == ["c", "d"]
