"""The search, on histories small enough to judge by eye."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from adsum.testing.linearizability import NEVER, HistoryVerdict, Operation, after, verdict
from adsum.testing.raft_machine import ClientCall


def put(value: str, invoked: int, returned: int = NEVER, *, key: str = "k") -> Operation:
    return Operation(
        0, ClientCall("set", key, value), invoked, returned, "yes" if returned != NEVER else None
    )


def got(value: str, invoked: int, returned: int, *, key: str = "k") -> Operation:
    return Operation(0, ClientCall("get", key), invoked, returned, value)


def swapped(old: str, new: str, invoked: int, returned: int, *, answer: str) -> Operation:
    return Operation(0, ClientCall("cas", "k", new, old), invoked, returned, answer)


def test_one_after_another() -> None:
    assert (
        verdict([put("a", 1, 2), got("a", 3, 4), put("b", 5, 6), got("b", 7, 8)])
        is HistoryVerdict.LINEARIZABLE
    )


def test_a_read_beside_a_write_may_see_either_value() -> None:
    for value in ("a", "b"):
        assert verdict([put("a", 1, 2), put("b", 3, 9), got(value, 4, 5)]) is HistoryVerdict.LINEARIZABLE


def test_a_stale_read_is_refuted() -> None:
    assert verdict([put("a", 1, 2), put("b", 3, 4), got("a", 5, 6)]) is HistoryVerdict.IMPOSSIBLE


def test_a_value_that_was_seen_cannot_be_unseen() -> None:
    """Beside one slow write, the second reader is behind the first."""
    history = [put("a", 1, 2), put("b", 3, 20), got("b", 4, 5), got("a", 6, 7)]
    assert verdict(history) is HistoryVerdict.IMPOSSIBLE


def test_a_lost_write_is_refuted() -> None:
    assert verdict([put("a", 1, 2), got("", 3, 4)]) is HistoryVerdict.IMPOSSIBLE


def test_a_write_nobody_answered_may_have_happened_at_any_time_since() -> None:
    history = [put("a", 1, 2), put("b", 3), got("a", 4, 5), got("b", 6, 7)]
    assert verdict(history) is HistoryVerdict.LINEARIZABLE
    assert verdict([*history, got("a", 8, 9)]) is HistoryVerdict.IMPOSSIBLE


def test_two_swaps_of_one_value_do_not_both_succeed() -> None:
    first, second = swapped("a", "b", 3, 9, answer="yes"), swapped("a", "c", 4, 8, answer="yes")
    assert verdict([put("a", 1, 2), first, second]) is HistoryVerdict.IMPOSSIBLE
    refused = swapped("a", "c", 4, 8, answer="no")
    assert verdict([put("a", 1, 2), first, refused]) is HistoryVerdict.LINEARIZABLE


def test_a_swap_that_was_refused_for_no_reason_is_refuted() -> None:
    assert verdict([put("a", 1, 2), swapped("a", "b", 3, 4, answer="no")]) is HistoryVerdict.IMPOSSIBLE


def test_keys_are_judged_apart_and_one_refuted_key_is_enough() -> None:
    good = [put("a", 1, 2, key="x"), got("a", 3, 4, key="x")]
    bad = [put("a", 1, 2, key="y"), got("", 3, 4, key="y")]
    assert verdict(good) is HistoryVerdict.LINEARIZABLE
    assert verdict(good + bad) is HistoryVerdict.IMPOSSIBLE


def test_without_steps_there_is_no_verdict() -> None:
    crowd = [put(str(number), 1, 100) for number in range(12)] + [got("nobody's", 1, 100)]
    assert verdict(crowd, steps_max=1000) is HistoryVerdict.UNDECIDED


def test_a_long_history_takes_no_longer_than_it_is_long_where_servers_told_the_order() -> None:
    """Of thirty writes that nobody answered each may have been done at any time since."""
    told = [replace(put(str(number), number), index=2 * number) for number in range(1, 31)]
    told += [
        replace(got(str(number), 100 + number, 100 + number), index=2 * number) for number in range(1, 31)
    ]
    assert verdict(told, steps_max=200) is HistoryVerdict.LINEARIZABLE
    not_told = [replace(operation, index=0) for operation in told]
    assert verdict(not_told, steps_max=200) is HistoryVerdict.UNDECIDED


def test_an_order_that_servers_made_up_is_not_believed() -> None:
    stale = [put("a", 1, 2), put("b", 3, 4), got("a", 5, 6)]
    history = [replace(each, index=index) for each, index in zip(stale, (1, 3, 2), strict=True)]
    assert verdict(history) is HistoryVerdict.IMPOSSIBLE


def test_what_is_removed_as_it_was_read_may_be_gone_already() -> None:
    def removed(answer: str) -> Operation:
        return Operation(0, ClientCall("remove", "k", "", "a"), 3, 4, answer)

    assert verdict([put("a", 1, 2), removed("yes"), got("", 5, 6)]) is HistoryVerdict.LINEARIZABLE
    assert verdict([removed("yes")]) is HistoryVerdict.LINEARIZABLE
    assert verdict([put("b", 1, 2), removed("yes")]) is HistoryVerdict.IMPOSSIBLE
    assert verdict([put("b", 1, 2), removed("no")]) is HistoryVerdict.LINEARIZABLE


def by_trying_all(history: list[Operation]) -> bool:
    for order in permutations(history):
        value = ""
        for position, operation in enumerate(order):
            if any(later.returned_ns < operation.invoked_ns for later in order[position + 1 :]):
                break
            next_value = after(value, operation)
            if next_value is None:
                break
            value = next_value
        else:
            return True
    return False


times = st.tuples(st.integers(0, 20), st.integers(1, 10)).map(lambda pair: (pair[0], pair[0] + pair[1]))
values = st.sampled_from(["", "a", "b"])
operations = st.one_of(
    st.builds(lambda value, span: put(value, *span), values, times),
    st.builds(lambda value, span: got(value, *span), values, times),
    st.builds(lambda old, new, span, is_done: swapped(old, new, *span, answer="yes" if is_done else "no"),
              values, values, times, st.booleans()),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(operations, max_size=5))
def test_the_search_agrees_with_trying_every_order(history: list[Operation]) -> None:
    expected = HistoryVerdict.LINEARIZABLE if by_trying_all(history) else HistoryVerdict.IMPOSSIBLE
    assert verdict(history) is expected
