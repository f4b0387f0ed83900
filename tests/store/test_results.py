"""Who asks again is answered, or told that nobody remembers; never run twice."""

from __future__ import annotations

from adsum.dedup import DedupKey
from adsum.kv import StoreOutcome
from adsum.store.results import RESULT_OVERHEAD_BYTES, ResultTable


def key(client: str, sequence: int, generation: int = 1, low_water: int = 0, attempt: int = 0) -> DedupKey:
    return DedupKey(client, generation, sequence, low_water, attempt)


def table(results: int) -> ResultTable:
    """With room for so many answers of one byte."""
    return ResultTable(results * (RESULT_OVERHEAD_BYTES + 1))


def test_an_answer_is_found_until_its_agent_is_done_with_it() -> None:
    results = table(10)
    results.keep(key("a", 1), b"1", 11)
    results.keep(key("a", 2), b"2", 12)
    assert results.find(key("a", 1, attempt=1), seen=0) == b"1"
    results.keep(key("a", 3, low_water=2), b"3", 13)
    assert results.find(key("a", 1, attempt=1), seen=0) is StoreOutcome.UNKNOWN
    assert results.find(key("a", 2, attempt=1), seen=0) == b"2"


def test_the_row_whose_newest_answer_is_oldest_goes_first_and_raises_the_floor() -> None:
    results = table(2)
    results.keep(key("a", 1), b"1", 11)
    results.keep(key("b", 1), b"1", 12)
    results.keep(key("a", 2), b"2", 13)
    assert list(results.rows) == ["a"]
    assert results.floor == 12


def test_without_an_answer_and_from_before_the_floor_only_a_first_attempt_is_known_not_to_be_done() -> None:
    results = table(1)
    results.keep(key("a", 1), b"1", 11)
    results.keep(key("b", 1), b"1", 12)
    assert results.find(key("a", 1, attempt=1), seen=5) is StoreOutcome.UNKNOWN
    assert results.find(key("a", 1), seen=5) is StoreOutcome.NOT_DONE
    assert results.find(key("a", 1, attempt=1), seen=11) is None


def test_a_repeat_is_not_run_although_a_later_request_made_the_row_again() -> None:
    results = table(1)
    results.keep(key("a", 1), b"1", 11)
    results.keep(key("b", 1), b"1", 12)
    results.keep(key("a", 2), b"2", 13)
    assert results.find(key("a", 1, attempt=1), seen=10) is StoreOutcome.UNKNOWN


def test_a_later_run_of_an_agent_replaces_its_row() -> None:
    results = table(10)
    results.keep(key("a", 1), b"1", 11)
    results.keep(key("a", 1, generation=2), b"!", 12)
    assert results.find(key("a", 1, generation=2, attempt=1), seen=0) == b"!"
    assert results.find(key("a", 1), seen=0) is StoreOutcome.OLD_GENERATION
    assert results.find(key("a", 1, attempt=1), seen=0) is StoreOutcome.UNKNOWN
    assert results.bytes_total == RESULT_OVERHEAD_BYTES + 1
