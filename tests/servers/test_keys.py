"""What a server's store of keys takes and refuses, before anything enters the log."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from msgspec.structs import replace

from adsum.consensus.effects import StateDoubted
from adsum.consensus.errors import QueueFull
from adsum.external import ExternalDeregister, ExternalItem, ExternalKind, ExternalRegister
from adsum.kv import (
    KeyCause,
    KeyRead,
    KeyRecord,
    KeyRefusal,
    KeysFound,
    KeyVerb,
    KeyWrite,
    ReadMode,
    ReadShape,
    StoreAnswer,
    StoreOutcome,
)
from adsum.servers.key_lists import KeyList
from adsum.servers.keys import StoreLimits
from adsum.session import Session, SessionCreate, SessionDestroy
from adsum.store.commands import Put, StoreRequest, encode_request
from adsum.store_requests import SessionRead, SessionShape, StoreChange
from adsum.transactions import EntryOperation, EntryVerb, KeyOperation, KeyOperationVerb, Transaction
from tests.api.memory_keys import InstantConsensus
from tests.store.stores import entry

PUT, DELETE, TREE = KeyVerb.PUT, KeyVerb.DELETE, KeyVerb.DELETE_TREE


def written(consensus: InstantConsensus, write: KeyWrite | StoreChange) -> str:
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
    through_another = encode_request(StoreRequest(Put(b"d", b"x" * 500), 0))  # with a higher limit
    consensus.machine.apply(entry(consensus.machine.applied + 1, through_another))
    for change in (
        KeyWrite(PUT, b"b", b"y" * 217),
        KeyWrite(PUT, b"b", b"z" * 216),
        KeyWrite(TREE, b"a"),
        KeyWrite(TREE, b"d"),
        KeyWrite(PUT, b"c"),
    ):
        assert written(consensus, change) == ""


def test_nodes_without_an_agent_have_as_many_places_as_other_agents_take() -> None:
    consensus = InstantConsensus(StoreLimits(external_max=3))
    node = ExternalItem(ExternalKind.NODE, "ext", "", b"n")
    check = ExternalItem(ExternalKind.CHECK, "ext", "up", b"c", status="passing")
    other = ExternalItem(ExternalKind.CHECK, "ext", "other", b"c", status="passing")
    assert written(consensus, ExternalRegister((node, check))) == ""
    sentence = written(consensus, ExternalRegister((other,)))
    assert sentence.startswith("nodes without an agent, their services and checks have 3 places")
    setting = EntryOperation(EntryVerb.SET, other)
    assert written(consensus, Transaction((setting,))) == sentence
    assert written(consensus, ExternalRegister((node, replace(check, status="critical")))) == ""
    assert written(consensus, ExternalDeregister("ext", "", "up")) == ""
    assert written(consensus, ExternalRegister((other,))) == ""


def test_b12_only_a_read_that_may_be_stale_is_answered_without_asking_the_quorum() -> None:
    consensus = InstantConsensus()
    assert written(consensus, KeyWrite(PUT, b"a", b"1")) == ""
    consensus.holds = True
    for mode, count in ((ReadMode.DEFAULT, 0), (ReadMode.CONSISTENT, 0), (ReadMode.STALE, 1)):
        answers = list[KeysFound | KeyRefusal]()
        consensus.keys.read(KeyRead(ReadShape.KEY, b"a", mode=mode), answers.append)
        assert len(answers) == count, mode


def test_reads_are_asked_together_with_those_that_came_in_the_same_turn_of_consensus() -> None:
    consensus, answers = InstantConsensus(), list[KeysFound | KeyRefusal]()
    assert written(consensus, KeyWrite(PUT, b"a", b"1")) == ""
    consensus.holds = True
    for turn in (1, 1, 2):
        consensus.read_turn = turn
        consensus.keys.read(KeyRead(ReadShape.KEY, b"a"), answers.append)
    first, second = consensus.held
    first(consensus.machine.applied)
    assert len(answers) == 2
    second(consensus.machine.applied)
    assert len(answers) == 3


def test_nobody_joins_reads_that_were_refused() -> None:
    consensus, answers = InstantConsensus(), list[KeysFound | KeyRefusal]()
    consensus.read_turn, consensus.refuses = 1, QueueFull("ask again")
    for _ in range(2):
        consensus.keys.read(KeyRead(ReadShape.KEY, b"a"), answers.append)
    assert [type(answer) for answer in answers] == [KeyRefusal, KeyRefusal]


def test_b23_whoever_gives_up_waits_for_nothing_any_more() -> None:
    consensus, answers = InstantConsensus(), list[KeysFound | KeyRefusal]()
    assert written(consensus, KeyWrite(PUT, b"a", b"1")) == ""
    for shape in (ReadShape.KEY, ReadShape.TREE):
        asked = consensus.keys.read(KeyRead(shape, b"a", since=1), answers.append)
        assert len(consensus.keys.waiters) == 1
        consensus.keys.give_up(asked)
        assert len(consensus.keys.waiters) == 0
    assert written(consensus, KeyWrite(PUT, b"a", b"2")) == ""
    assert answers == []


def causes(consensus: InstantConsensus, *modes: ReadMode, since: int = 0) -> list[KeyCause | None]:
    """Why each read is refused; None if it is answered."""
    answers = list[KeysFound | KeyRefusal]()
    for mode in modes:
        consensus.keys.read(KeyRead(ReadShape.KEY, b"a", mode=mode, since=since), answers.append)
    return [answer.cause if isinstance(answer, KeyRefusal) else None for answer in answers]


def test_where_servers_differ_and_nobody_knows_who_is_right_nothing_stale_is_read() -> None:
    consensus = InstantConsensus()
    assert written(consensus, KeyWrite(PUT, b"a", b"1")) == ""
    consensus.keys.doubted(StateDoubted("servers differ"))
    assert causes(consensus, *ReadMode) == [None, None, KeyCause.DOUBTED]
    consensus.keys.doubted(StateDoubted(""))
    assert causes(consensus, *ReadMode) == [None, None, None]


def test_where_applying_has_stopped_nothing_is_read_and_nobody_goes_on_waiting() -> None:
    consensus, answers = InstantConsensus(), list[KeysFound | KeyRefusal]()
    assert written(consensus, KeyWrite(PUT, b"a", b"1")) == ""
    for shape in (ReadShape.KEY, ReadShape.TREE):
        consensus.keys.read(KeyRead(shape, b"a", since=1), answers.append)
    consensus.keys.doubted(StateDoubted("it differs", has_stopped=True))
    assert [(answer.cause, answer.sentence) for answer in answers if isinstance(answer, KeyRefusal)] == [
        (KeyCause.DOUBTED, "it differs"),
        (KeyCause.DOUBTED, "it differs"),
    ]
    assert len(consensus.keys.waiters) == 0
    assert causes(consensus, *ReadMode) == [KeyCause.DOUBTED] * 3


class Reader:
    """It `ReadsKeyAgain`, and keeps the record that it was told last."""

    def __init__(self, mode: ReadMode = ReadMode.DEFAULT) -> None:
        self.read = KeyRead(ReadShape.KEY, b"a", mode=mode)
        self.mode = mode
        self.record: KeyRecord | None = None
        self.revision = -1
        self.heard: list[tuple[str, object]] = []

    def told(self, asker: str, found: KeysFound | KeyRefusal) -> None:
        if isinstance(found, KeyRefusal):
            self.heard.append((asker, found.cause))
        else:
            self.record = found.records[0] if found.records else None
            self.heard.append((asker, self.record.value if self.record is not None else found.index))

    def told_the_same(self, asker: str, standing: tuple[bool, int]) -> None:
        self.heard.append((asker, standing))


def test_a_key_that_is_read_again_is_told_anew_only_when_it_was_written() -> None:
    consensus, reader = InstantConsensus(), Reader()
    for number, write in enumerate(
        (
            KeyWrite(PUT, b"a", b"1"),
            KeyWrite(PUT, b"b", b"2"),
            KeyWrite(PUT, b"a", b"3"),
            KeyWrite(DELETE, b"a"),
            KeyWrite(PUT, b"a", b"4"),
        )
    ):
        assert written(consensus, write) == ""
        for _ in range(2):
            consensus.keys.read_again(reader, str(number))
    same = (True, 0)
    assert reader.heard == [
        *(("0", b"1"), ("0", same)),
        *(("1", same), ("1", same)),
        *(("2", b"3"), ("2", same)),
        *(("3", 4), ("3", 4)),
        *(("4", b"4"), ("4", same)),
    ]
    assert consensus.keys.counters.reads == [10, 0, 0]


def test_while_nothing_changes_a_key_that_is_read_again_is_not_looked_up() -> None:
    consensus, reader = InstantConsensus(), Reader()
    assert written(consensus, KeyWrite(PUT, b"a", b"1")) == ""
    for asker in "123":
        consensus.keys.read_again(reader, asker)
    consensus.machine.keyspaces[0].table.remove(b"a")  # as no command does
    consensus.keys.read_again(reader, "4")
    assert [asker for asker, heard in reader.heard if heard == (True, 0)] == ["2", "3", "4"]


def test_reads_again_are_asked_together_with_all_others_and_refused_with_them() -> None:
    consensus, reader, answers = InstantConsensus(), Reader(), list[KeysFound | KeyRefusal]()
    assert written(consensus, KeyWrite(PUT, b"a", b"1")) == ""
    consensus.holds, consensus.read_turn = True, 1
    consensus.keys.read_again(reader, "1")
    consensus.keys.read(reader.read, answers.append)
    consensus.keys.read_again(reader, "2")
    assert (len(consensus.held), reader.heard) == (1, [])
    consensus.held.pop()(consensus.machine.applied)
    assert (reader.heard, len(answers)) == ([("1", b"1"), ("2", (True, 0))], 1)
    consensus.read_turn, consensus.holds, consensus.refuses = 2, False, QueueFull("ask again")
    consensus.keys.read_again(reader, "3")
    assert reader.heard[2:] == [("3", KeyCause.BUSY)]
    assert consensus.keys.counters.refused[KeyCause.BUSY] == 1


def test_a_stale_read_again_tells_how_late_it_is_and_waits_until_a_leader_was_heard() -> None:
    consensus, reader = InstantConsensus(), Reader(ReadMode.STALE)
    assert written(consensus, KeyWrite(PUT, b"a", b"1")) == ""
    consensus.holds, consensus.keys.has_heard_leader = True, False
    consensus.keys.read_again(reader, "1")
    assert reader.heard == []
    consensus.held.pop()(consensus.machine.applied)
    consensus.keys.has_heard_leader = True
    consensus.leader, consensus.behind_ms = None, 700
    consensus.keys.read_again(reader, "2")
    assert (reader.heard, consensus.held) == ([("1", b"1"), ("2", (False, 700))], [])


def test_what_is_doubted_is_not_read_again_either() -> None:
    consensus, stale, reader = InstantConsensus(), Reader(ReadMode.STALE), Reader()
    assert written(consensus, KeyWrite(PUT, b"a", b"1")) == ""
    for each in (stale, reader):
        consensus.keys.read_again(each, "1")
    consensus.holds, consensus.read_turn = True, 1
    consensus.keys.read_again(reader, "2")
    consensus.keys.doubted(StateDoubted("it differs", has_stopped=True))
    consensus.held.pop()(consensus.machine.applied)
    for each in (stale, reader):
        consensus.keys.read_again(each, "3")
    assert stale.heard == [("1", b"1"), ("3", KeyCause.DOUBTED)]
    assert reader.heard == [("1", b"1"), ("2", KeyCause.DOUBTED), ("3", KeyCause.DOUBTED)]


LARGE = 200_000  # keys; several turns for either shape


def large() -> InstantConsensus:
    consensus = InstantConsensus()
    space = consensus.machine.keyspaces[0]
    for first in range(0, LARGE, 200):
        keys = [b"%06d/x" % number for number in range(first, first + 200)]
        space.table.load(keys, [KeyRecord(b"", 1, 1, 0, 0)] * 200)
    space.revision = consensus.machine.applied = 1
    return consensus


def walks(monkeypatch: pytest.MonkeyPatch) -> list[KeyList]:
    """Each turn of a list, as it is gone."""
    walked = list[KeyList]()
    walk = KeyList.walk

    def watched(each: KeyList) -> None:
        walked.append(each)
        walk(each)

    monkeypatch.setattr(KeyList, "walk", watched)
    return walked


READS = [
    KeyRead(ReadShape.NAMES, b""),
    KeyRead(ReadShape.NAMES, b"", b"/"),
    KeyRead(ReadShape.TREE, b""),
]


@pytest.mark.parametrize("read", READS, ids=["names", "folders", "tree"])
async def test_a_large_list_is_of_one_moment_and_lets_others_run_meanwhile(read: KeyRead) -> None:
    consensus, answers = large(), list[KeysFound | KeyRefusal]()
    consensus.keys.read(read, answers.append)
    turns = 0
    while not answers:
        assert written(consensus, KeyWrite(PUT, b"%06d!" % (turns * 7_000))) == ""
        assert written(consensus, KeyWrite(DELETE, b"%06d/x" % (LARGE - 1 - turns))) == ""
        await trio.lowlevel.checkpoint()
        turns += 1
    (found,) = answers
    assert isinstance(found, KeysFound)
    end = b"/" if read.separator else b"/x"
    assert turns >= 3
    assert found.index == 1
    assert found.keys == [b"%06d%b" % (number, end) for number in range(LARGE)]
    assert len(found.records) == (LARGE if read.shape is ReadShape.TREE else 0)


async def test_a_crowd_that_asks_for_the_same_list_walks_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    consensus, answers = large(), list[KeysFound | KeyRefusal]()
    walked = walks(monkeypatch)
    for _ in range(300):
        consensus.keys.read(READS[0], answers.append)
    given_up = consensus.keys.read(READS[0], answers.append)
    consensus.keys.give_up(given_up)
    while len(answers) < 300:
        await trio.lowlevel.checkpoint()
    consensus.keys.read(READS[0], answers.append)
    assert len(answers) == 301
    assert len(walked) == 4
    assert written(consensus, KeyWrite(PUT, b"new")) == ""
    consensus.keys.read(READS[0], answers.append)
    assert len(walked) == 5


async def test_a_list_that_nobody_waits_for_any_more_is_walked_no_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consensus, answers = large(), list[KeysFound | KeyRefusal]()
    walked = walks(monkeypatch)
    consensus.keys.give_up(consensus.keys.read(READS[0], answers.append))
    for _ in range(5):
        await trio.lowlevel.checkpoint()
    assert (answers, len(walked)) == ([], 1)


async def test_what_a_deleted_tree_held_is_freed_in_turns_although_nobody_writes_any_more() -> None:
    consensus, turns = large(), 0
    assert written(consensus, KeyWrite(TREE, b"")) == ""
    while consensus.machine.let_go(0):
        await trio.lowlevel.checkpoint()
        turns += 1
    assert turns > 10
    assert consensus.machine.applied == 2


# Sessions and locks.


def session(number: int) -> Session:
    return Session(f"00000000-0000-0000-0000-{number:012}", "n1", b"n" * 16, 1, 0)


def asked(consensus: InstantConsensus, change: KeyWrite | StoreChange) -> StoreAnswer | KeyRefusal:
    answers: list[StoreAnswer | KeyRefusal] = []
    consensus.keys.write(change, answers.append)
    (answer,) = answers
    return answer


def test_a_full_store_takes_no_session_and_no_lock_and_lets_all_of_them_go() -> None:
    consensus = InstantConsensus(StoreLimits(bytes_max=2_200))
    assert written(consensus, KeyWrite(PUT, b"k", b"x" * 400)) == ""
    assert isinstance(asked(consensus, SessionCreate(session(1))), StoreAnswer)
    assert written(consensus, KeyWrite(PUT, b"l", b"x" * 400)) == ""
    refusal = asked(consensus, SessionCreate(session(2)))
    assert isinstance(refusal, KeyRefusal)
    assert refusal.cause is KeyCause.NO_ROOM
    lock = KeyWrite(KeyVerb.ACQUIRE, b"m", b"x" * 100, session=session(1).id)
    refusal = asked(consensus, lock)
    assert isinstance(refusal, KeyRefusal)
    assert refusal.cause is KeyCause.NO_ROOM
    in_transaction = Transaction((KeyOperation(KeyOperationVerb.SET, b"m", b"x" * 100),))
    assert isinstance(asked(consensus, in_transaction), KeyRefusal)
    no_larger = Transaction((KeyOperation(KeyOperationVerb.SET, b"k", b"y" * 400),))
    assert isinstance(asked(consensus, no_larger), StoreAnswer)
    assert isinstance(asked(consensus, SessionDestroy(session(1).id)), StoreAnswer)


def test_a_log_at_an_earlier_level_takes_keys_and_says_what_the_rest_waits_for() -> None:
    consensus = InstantConsensus()
    consensus.apply_level, consensus.level_waits_for = 1, ["n2", "n3"]
    assert written(consensus, KeyWrite(PUT, b"k", b"1")) == ""
    changes: list[KeyWrite | StoreChange] = [
        SessionCreate(session(1)),
        KeyWrite(KeyVerb.ACQUIRE, b"k", session=session(1).id),
        KeyWrite(PUT, b"k", b"2", if_token=1),
        Transaction(()),
    ]
    for change in changes:
        refusal = asked(consensus, change)
        assert isinstance(refusal, KeyRefusal)
        assert refusal.cause is KeyCause.FAILED
        assert refusal.sentence.startswith(
            "the log of consensus is written at apply level 1, so that servers"
        )
        assert refusal.sentence.endswith("come when all are upgraded (n2, n3 are not)")
    assert consensus.machine.applied == 1


def test_a_session_wakes_those_who_asked_for_it_for_its_node_or_for_all() -> None:
    consensus, found = InstantConsensus(), list[str]()
    asked(consensus, SessionCreate(session(1)))
    reads = {
        "it": SessionRead(SessionShape.ONE, session(1).id, since=1),
        "another": SessionRead(SessionShape.ONE, session(2).id, since=1),
        "its node": SessionRead(SessionShape.OF_NODE, "N1", since=1),
        "another node": SessionRead(SessionShape.OF_NODE, "n2", since=1),
        "all": SessionRead(SessionShape.ALL, since=1),
    }

    def hear(name: str, _found: object) -> None:
        found.append(name)

    for name, read in reads.items():
        consensus.keys.ask(read, partial(hear, name))
    asked(consensus, SessionDestroy(session(1).id))
    assert found == ["it", "its node", "all"]


def test_who_hung_up_while_waiting_for_sessions_is_forgotten() -> None:
    consensus = InstantConsensus()
    asked(consensus, SessionCreate(session(1)))
    found: list[object] = []
    waiting = consensus.keys.ask(SessionRead(SessionShape.ALL, since=1), found.append)
    consensus.keys.give_up(waiting)
    asked(consensus, SessionDestroy(session(1).id))
    assert found == []
