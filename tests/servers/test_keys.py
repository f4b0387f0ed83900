"""What a server's store of keys takes and refuses, before anything enters the log."""

from __future__ import annotations

from adsum.kv import KeyCause, KeyRefusal, KeyVerb, KeyWrite, StoreAnswer, StoreOutcome
from adsum.servers.keys import StoreLimits
from tests.api.memory_keys import InstantConsensus

PUT, DELETE, TREE = KeyVerb.PUT, KeyVerb.DELETE, KeyVerb.DELETE_TREE


def written(consensus: InstantConsensus, write: KeyWrite) -> str:
    """Done, or why not."""
    answers: list[StoreAnswer | KeyRefusal] = []
    consensus.keys.write(write, answers.append)
    (answer,) = answers
    if isinstance(answer, KeyRefusal):
        assert answer.cause is KeyCause.NO_ROOM
        return answer.sentence
    assert answer.outcome is StoreOutcome.DONE
    return ""


def test_a_store_with_as_many_keys_as_it_may_have_takes_no_other_key() -> None:
    consensus = InstantConsensus(StoreLimits(keys_max=2))
    for key in (b"a", b"b"):
        assert written(consensus, KeyWrite(PUT, key, b"1")) == ""
    sentence = written(consensus, KeyWrite(PUT, b"c", b"1"))
    assert sentence == "the store holds 2 keys, and may not hold more: delete some first"
    assert consensus.machine.applied == 2
    assert consensus.keys.counters.refused_keys_max == 1
    assert written(consensus, KeyWrite(PUT, b"b", b"another value")) == ""
    assert written(consensus, KeyWrite(DELETE, b"a")) == ""
    assert written(consensus, KeyWrite(PUT, b"c", b"1")) == ""


def test_a_store_as_large_as_it_may_be_takes_what_makes_it_no_larger() -> None:
    consensus = InstantConsensus(StoreLimits(bytes_max=1_000))
    assert written(consensus, KeyWrite(PUT, b"a", b"x" * 400)) == ""
    assert written(consensus, KeyWrite(PUT, b"b", b"x" * 217)) == ""
    sentence = "the store holds 999 bytes, and with this key it would exceed the 1000 that it may hold"
    for too_much in (KeyWrite(PUT, b"c"), KeyWrite(PUT, b"b", b"x" * 219)):
        assert written(consensus, too_much) == sentence + ": delete some keys first"
    assert consensus.keys.counters.refused_bytes_max == 2
    for change in (
        KeyWrite(PUT, b"b", b"y" * 218),
        KeyWrite(PUT, b"b", b"z" * 218, flags=1),
        KeyWrite(TREE, b"a"),
        KeyWrite(PUT, b"c"),
    ):
        assert written(consensus, change) == ""
