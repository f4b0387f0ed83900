from __future__ import annotations

from pathlib import Path

import cbor2
import pytest
import trio

from adsum.consensus.bootstrap import ServerStanding
from adsum.consensus.effects import AskStanding
from adsum.consensus.errors import StoreBroken
from adsum.consensus.founding import FoundingCore
from adsum.consensus.settings import ServerSettings
from adsum.raft.types import BOOTSTRAP_INDEX, MemberId
from adsum.servers.founding import Founding
from adsum.servers.server import loop_now
from adsum.servers.standing import decoded, encoded, founders_in, question
from adsum.servers.wire import UnreadableMessage
from adsum.storage.consent import read_consent, write_consent
from adsum.storage.files import DiskFull, OsFolder
from adsum.storage.opening import OpenedLog, open_log
from adsum.storage.raft_log import RaftLog
from tests.servers.faults import Faults, FaultyFolder
from tests.servers.support import SEGMENT_BYTES, Words


class Nobody:
    async def ask_once(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes:
        raise AssertionError("there is nobody to ask")


def opened(folder: OsFolder) -> OpenedLog:
    return open_log(folder, node="a", mint_log_id=lambda: "log", mint_salt=bytes, segment_bytes=SEGMENT_BYTES)


def founding(found: OpenedLog, expect: int = 1) -> Founding:
    identity = found.log.identity
    core = FoundingCore(
        identity.member,
        identity.cluster,
        identity.epoch,
        found.restored,
        Words(),
        ServerSettings(expect=expect),
        is_in_doubt=False,
        consent=read_consent(found.log.folder),
    )
    made = Founding(core, found.log, Nobody(), list, loop_now)
    made.join_was_tried()
    return made


async def test_a_full_disk_between_snapshot_and_cluster_id_delays_the_founding_and_splits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    found = opened(OsFolder(tmp_path / "a"))
    work, attempts = founding(found), list[str]()
    join = RaftLog.join

    def join_when_there_is_room(log: RaftLog, cluster: str, epoch: int) -> None:
        attempts.append(cluster)
        standing = work.core.standing([])
        assert (standing.is_empty, standing.cluster_id) == (False, "")  # nobody founds with such a one
        if len(attempts) == 1:
            raise DiskFull("no space left")
        join(log, cluster, epoch)

    monkeypatch.setattr(RaftLog, "join", join_when_there_is_room)
    await work.until_member()
    assert attempts == [found.log.identity.cluster] * 2
    assert work.core.restored.snapshot.index == BOOTSTRAP_INDEX


async def test_a_start_finishes_what_the_one_before_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = OsFolder(tmp_path / "a")
    first, joined = opened(folder), list[str]()

    def die(_log: RaftLog, cluster: str, _epoch: int) -> None:
        joined.append(cluster)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RaftLog, "join", die)
        with pytest.raises(BaseExceptionGroup) as raised:
            await founding(first).until_member()
        assert raised.group_contains(KeyboardInterrupt)
    first.log.close()
    folder.close()
    second = opened(OsFolder(tmp_path / "a"))
    await founding(second).until_member()
    assert [second.log.identity.cluster] == joined


async def test_a_disk_that_fails_ends_the_process(tmp_path: Path) -> None:
    faults = Faults()
    found = open_log(
        FaultyFolder(tmp_path / "a", faults),
        node="a",
        mint_log_id=lambda: "log",
        mint_salt=bytes,
        segment_bytes=SEGMENT_BYTES,
    )
    faults.syncs_fail = True
    with pytest.raises(BaseExceptionGroup) as raised:
        await founding(found).until_member()
    assert raised.group_contains(StoreBroken, match="could not sync.*while this server came into a cluster")


async def test_a_consent_is_in_its_file_when_the_other_server_hears_of_it(
    tmp_path: Path, autojump_clock: object
) -> None:
    folder = OsFolder(tmp_path / "raft")
    work = founding(opened(folder), expect=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work.until_member)
        assert not (await work.standing_for(())).is_asking
        assert "consent" not in folder.names()
        answer = await work.standing_for(("a",))
        assert answer.is_empty
        assert read_consent(folder) == ("a",)
        assert not (await work.standing_for(("a", "c"))).is_empty
        nursery.cancel_scope.cancel()


async def test_a_member_answers_at_once_and_keeps_no_consent(tmp_path: Path) -> None:
    folder = OsFolder(tmp_path / "raft")
    write_consent(folder, ("a",))
    found = opened(folder)
    work = founding(found)
    await work.until_member()
    assert "consent" not in folder.names()
    assert (await work.standing_for(("a",))).cluster_id == found.log.identity.cluster


A, B = MemberId("a", "log-a"), MemberId("b", "log-b")


@pytest.mark.parametrize(
    "standing",
    [
        ServerStanding(A, "dc1", 3, "", True),
        ServerStanding(A, "dc1", 2, "cluster", False, (A, B), ("a", "b")),
        ServerStanding(A, "dc1", 2, "", True, (), ("a", "b"), is_asking=True),
    ],
    ids=["empty", "founded", "asking"],
)
def test_a_standing_arrives_as_it_was_told(standing: ServerStanding) -> None:
    assert decoded(encoded(standing)) == standing


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage",
        b"\x80",
        b"\x83\x01\x02\x03",
        cbor2.dumps(["a", "log", "dc1", 1, "", True, [], False]),
        cbor2.dumps(["a", "log", "dc1", 1, "", True, [["b"]], [], False]),
        cbor2.dumps(["a", "log", "dc1", 1, "", True, [["b", "l" * 65]], [], False]),
        cbor2.dumps(["a", "log", "dc1", 1, "", True, [["b", "log"]] * 33, [], False]),
        cbor2.dumps(["a", "log", "dc1", 1, "", True, [], "b", False]),
        cbor2.dumps(["a", "log", "dc1", 1, "", True, [], [1], False]),
        cbor2.dumps(["a", "log", "dc1", 1, "", True, [], ["b"] * 34, False]),
        cbor2.dumps(["a", "ö" * 33, "dc1", 1, "", True, [], [], False]),
        cbor2.dumps(["a", "log", "dc1", 1, "", True, [["b", "ö" * 33]], [], False]),
        cbor2.dumps(["a", "log", "dc1", 1, "", True, [], ["ö" * 33], False]),
        cbor2.dumps(["a", "log", "dc1", 1, "", True, [], []]),
        cbor2.dumps(["a", "log", "dc1", 1, "", True, [], [], 0]),
    ],
)
def test_a_standing_that_makes_no_sense_is_no_answer(answer: bytes) -> None:
    assert decoded(answer) is None


def test_a_question_says_with_whom_the_asker_would_found() -> None:
    assert founders_in(question(AskStanding(1, "b", ("a", "b")))) == ("a", "b")
    assert founders_in(question(AskStanding(1, "b"))) == ()


@pytest.mark.parametrize("body", [b"", b"garbage", cbor2.dumps("a"), cbor2.dumps([1])])
def test_a_question_that_makes_no_sense_is_not_answered(body: bytes) -> None:
    with pytest.raises(UnreadableMessage):
        founders_in(body)
