"""Whether all that clients of keys were told fits one order of events: by two checkers that share nothing but
the order in which they try.

The witness (`key_witness`) believes the log and finds each operation's place in it. The search
(`linearizability`) knows nothing of servers: what clients asked and heard is taken apart into registers, one
for each key. A list is a look at each key that was ever below its prefix, and a deleted tree a write to each
of them. It tries first what the witness says, so a true history takes it no longer than it is long; one that
cannot be judged is a failure like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adsum.kv import KeyRead, KeysFound, KeyVerb, KeyWrite, ReadMode, ReadShape, StoreAnswer, StoreOutcome
from adsum.testing.checkers import demand
from adsum.testing.judged_request import JudgedRequest
from adsum.testing.key_timeline import KeyTimeline
from adsum.testing.key_witness import check_keys
from adsum.testing.linearizability import HistoryVerdict, Operation, verdict
from adsum.testing.raft_machine import ClientCall
from adsum.testing.written import Written


def judge_keys(operations: Sequence[JudgedRequest], written: Written) -> None:
    """Raises `Violation`."""
    happened, timeline = check_keys(operations, written)
    judgement = verdict(register_history(happened, timeline))
    demand(judgement is not HistoryVerdict.IMPOSSIBLE, "the answers fit no order of events")
    demand(judgement is not HistoryVerdict.UNDECIDED, "the answers take too long to judge")


def register_history(happened: Sequence[JudgedRequest], timeline: KeyTimeline) -> list[Operation]:
    """Without those reads that may be old."""
    writes = [each.asked for each in happened if isinstance(each.asked, KeyWrite)]
    named = {asked.key: asked.value for asked in writes if asked.verb is KeyVerb.PUT}
    history: list[Operation] = []
    for each in happened:
        asked = each.asked
        if isinstance(asked, KeyWrite):
            calls = _writes(asked, each.expected, timeline)
            answer = _answered(each.outcome)
            history += [_operation(each, call, answer) for call in calls]
        elif isinstance(each.outcome, KeysFound) and not asked.since and asked.mode is not ReadMode.STALE:
            seen = _seen(asked, each.outcome, named)
            for key in timeline.keys_of(asked):
                value = seen.get(key, b"").decode()
                history.append(_operation(each, ClientCall("get", key.decode()), value))
    return history


def _writes(asked: KeyWrite, expected: bytes, timeline: KeyTimeline) -> Iterator[ClientCall]:
    key = asked.key.decode()
    match asked.verb:
        case KeyVerb.DELETE_TREE:
            for each in timeline.keys_of(KeyRead(ReadShape.TREE, asked.key)):
                yield ClientCall("set", each.decode())
        case KeyVerb.DELETE if asked.cas is not None:
            yield ClientCall("remove", key, expected=expected.decode())
        case KeyVerb.PUT if asked.cas is not None:
            yield ClientCall("cas", key, asked.value.decode(), expected.decode())
        case _:
            yield ClientCall("set", key, asked.value.decode())


def _seen(read: KeyRead, found: KeysFound, named: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Of names alone, the values are those that were put there: each once."""
    if read.shape is ReadShape.NAMES:
        return {key: named[key] for key in found.keys}
    return {key: record.value for key, record in zip(found.keys, found.records, strict=True)}


def _answered(outcome: StoreAnswer | KeysFound | None) -> str | None:
    if not isinstance(outcome, StoreAnswer):
        return None
    return "yes" if outcome.outcome is StoreOutcome.DONE else "no"


def _operation(each: JudgedRequest, call: ClientCall, answer: str | None) -> Operation:
    return Operation(each.client, call, each.invoked_ns, each.returned_ns, answer, index=each.position)
