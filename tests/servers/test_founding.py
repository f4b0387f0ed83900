from __future__ import annotations

from pathlib import Path

import pytest

from adsum.consensus.settings import ServerSettings
from adsum.raft.messages import Heartbeat, MessageStamp
from adsum.raft.types import BOOTSTRAP_INDEX, MemberId, Term
from adsum.servers.founding import Founding, decoded, encoded, finish_founding
from adsum.storage.files import DiskFull, OsFolder
from adsum.storage.opening import OpenedLog, open_log
from adsum.storage.raft_log import RaftLog
from tests.servers.support import SEGMENT_BYTES, Words

ALONE = ServerSettings(expect=1)
NOT_ASKED = ServerSettings(expect=0)


class Nobody:
    async def ask_once(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes:
        raise AssertionError("there is nobody to ask")


def opened(folder: OsFolder) -> OpenedLog:
    return open_log(folder, node="a", mint_log_id=lambda: "log", segment_bytes=SEGMENT_BYTES)


def founding(found: OpenedLog, settings: ServerSettings) -> Founding:
    return Founding(found.log, found.restored, Words(), settings, Nobody(), list)


async def test_a_full_disk_between_snapshot_and_cluster_id_delays_the_founding_and_splits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    found = opened(OsFolder(tmp_path / "a"))
    work, attempts = founding(found, ALONE), list[str]()
    join = RaftLog.join

    def join_when_there_is_room(log: RaftLog, cluster: str, epoch: int) -> None:
        attempts.append(cluster)
        standing = work.standing()
        assert (standing.is_empty, standing.cluster_id) == (False, "")  # nobody founds with such a one
        if len(attempts) == 1:
            raise DiskFull("no space left")
        join(log, cluster, epoch)

    monkeypatch.setattr(RaftLog, "join", join_when_there_is_room)
    await work.until_member()
    assert attempts == [found.log.identity.cluster] * 2
    assert work.restored.snapshot.index == BOOTSTRAP_INDEX


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
        with pytest.raises(KeyboardInterrupt):
            await founding(first, ALONE).until_member()
    first.log.close()
    folder.close()
    second = opened(OsFolder(tmp_path / "a"))
    finish_founding(second.log, second.restored)
    assert [second.log.identity.cluster] == joined


async def test_only_a_message_to_this_very_log_takes_a_server_in(tmp_path: Path) -> None:
    found = opened(OsFolder(tmp_path / "a"))
    work = founding(found, NOT_ASKED)

    def message(target: MemberId, cluster_id: str) -> Heartbeat:
        return Heartbeat(MessageStamp(cluster_id, 3), MemberId("b", "log-b"), target, Term(1), 0, 1)

    work.hear(message(MemberId("a", "log"), "right"))
    work.hear(message(MemberId("a", "of a former life"), "wrong"))
    work.hear(message(MemberId("a", "log"), ""))
    await work.until_member()
    assert (found.log.identity.cluster, found.log.identity.epoch) == ("right", 3)
    assert not work.restored.entries


def test_a_standing_arrives_as_it_was_told(tmp_path: Path) -> None:
    standing = founding(opened(OsFolder(tmp_path / "a")), ALONE).standing()
    assert decoded(encoded(standing)) == standing


@pytest.mark.parametrize("answer", [b"", b"garbage", b"\x80", b"\x83\x01\x02\x03"])
def test_a_standing_that_makes_no_sense_is_no_answer(answer: bytes) -> None:
    assert decoded(answer) is None
