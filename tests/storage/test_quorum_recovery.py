from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from adsum.raft.batch import LogChange
from adsum.raft.changer import decode_configuration
from adsum.raft.log import Log
from adsum.raft.types import Configuration, EntryKind, RevisionOffset
from adsum.storage.files import write_whole
from adsum.storage.quorum_recovery import (
    FILE,
    QuorumRecovery,
    QuorumRecoveryRefused,
    describe,
    encode,
    offset_of,
    recover_quorum,
)
from adsum.storage.recovery import LogVerdict
from adsum.storage.segment import SEGMENT_HEADER_BYTES
from adsum.storage.segment_files import segment_name
from adsum.testing.block_disk import BlockDisk, PowerLost
from tests.storage.raft_logs import ME, entries, new_disk, opened, state

OFFSET = RevisionOffset(1_800_000_000 << 21, 3)


def survivor() -> tuple[BlockDisk, QuorumRecovery]:
    disk = new_disk()
    log = opened(disk).log
    log.join("cluster", 0)
    log.append([LogChange(entries=entries(1, 4, term=3), hard_state=state(7, commit=2))])
    return disk, describe(log, 1_800_000_000)


def test_b25_the_survivor_becomes_the_only_voter_in_the_next_term_and_epoch() -> None:
    disk, recovery = survivor()
    assert recover_quorum(disk, opened(disk)) is None
    write_whole(disk, FILE, encode(recovery))
    restored = recover_quorum(disk, opened(disk))
    assert restored is not None
    assert restored.hard_state == state(8, commit=5)
    added = restored.entries[-1]
    assert (added.index, added.term, added.kind) == (5, 8, EntryKind.CONFIGURATION)
    assert decode_configuration(added.data) == Configuration(voters=(ME,))
    disk.lose_power()
    assert FILE not in disk.names()
    found = opened(disk)
    assert found.restored == restored
    assert found.log.identity.epoch == 1


def test_revisions_go_on_above_all_that_can_have_been_given_out_from_the_first_uncertain_index() -> None:
    disk, recovery = survivor()
    write_whole(disk, FILE, encode(recovery))
    restored = recover_quorum(disk, opened(disk))
    assert restored is not None
    assert restored.offset == OFFSET
    log = Log(restored.snapshot, restored.entries, commit=5, offset=restored.offset)
    assert [log.offset_at(index) for index in (2, 3, 5)] == [0, OFFSET.value, OFFSET.value]
    again = describe(opened(disk).log, 7)  # by a clock that stands at 1970
    assert offset_of(again, OFFSET) == RevisionOffset(5 + OFFSET.value + (1 << 40), 6)


def test_a_log_begun_anew_keeps_its_offset() -> None:
    disk, recovery = survivor()
    write_whole(disk, FILE, encode(recovery))
    recover_quorum(disk, opened(disk))
    disk.rot(segment_name(2), (SEGMENT_HEADER_BYTES + 60) * 8)
    found = opened(disk, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT
    assert found.log.offset == found.restored.offset == OFFSET
    assert opened(disk).log.offset == OFFSET


def test_b25_it_is_not_applied_twice() -> None:
    disk, recovery = survivor()
    write_whole(disk, FILE, encode(recovery))
    recover_quorum(disk, opened(disk))
    opened(disk).log.append([LogChange(entries=entries(6, 6, term=8), hard_state=state(8, commit=5))])
    write_whole(disk, FILE, encode(recovery))
    with pytest.raises(QuorumRecoveryRefused, match=r"epoch is 1 here and 0 in the file.*last_index is 6"):
        recover_quorum(disk, opened(disk))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cluster", "other"),
        ("epoch", 1),
        ("node", "other"),
        ("log", "log-9"),
        ("last_index", 3),
        ("term", 6),
        ("commit", 3),
    ],
)
def test_b25_a_file_with_a_wrong_id_or_term_is_refused_and_changes_nothing(
    field: str, value: str | int
) -> None:
    disk, recovery = survivor()
    fields = {**asdict(recovery), field: value}
    write_whole(disk, FILE, json.dumps(fields).encode())
    found = opened(disk)
    with pytest.raises(QuorumRecoveryRefused, match=f"{field} is"):
        recover_quorum(disk, found)
    assert describe(found.log, 1_800_000_000) == recovery
    assert FILE in disk.names()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"cluster": 1}', b"\xff", b"7"])
def test_b25_a_file_that_makes_no_sense_is_refused(content: bytes) -> None:
    disk, _ = survivor()
    write_whole(disk, FILE, content)
    with pytest.raises(QuorumRecoveryRefused, match="cannot be read"):
        recover_quorum(disk, opened(disk))


def test_b25_a_file_on_a_bad_sector_is_refused() -> None:
    disk, recovery = survivor()
    write_whole(disk, FILE, encode(recovery))
    disk.make_unreadable(FILE, 0)
    with pytest.raises(QuorumRecoveryRefused, match="cannot be read"):
        recover_quorum(disk, opened(disk))


def test_b25_a_number_that_is_a_word_is_refused() -> None:
    disk, recovery = survivor()
    write_whole(disk, FILE, json.dumps({**asdict(recovery), "epoch": "0"}).encode())
    with pytest.raises(QuorumRecoveryRefused, match="epoch must be of type int"):
        recover_quorum(disk, opened(disk))


def test_b25_a_recovery_interrupted_anywhere_is_finished_by_the_next_start() -> None:
    for point in range(30):
        disk, recovery = survivor()
        write_whole(disk, FILE, encode(recovery))
        disk.faults.crash_before = point
        try:
            recover_quorum(disk, opened(disk))
            disk.kill()
        except PowerLost:
            disk.lose_power()
        found = opened(disk)
        recover_quorum(disk, found)
        assert describe(found.log, 1_800_000_000) == replace(
            recovery, epoch=1, last_index=5, term=8, commit=5
        ), point
        assert found.log.offset == OFFSET, point
