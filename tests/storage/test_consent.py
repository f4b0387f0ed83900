from __future__ import annotations

from pathlib import Path
from random import Random

import cbor2
import pytest

from adsum.storage.consent import FILE, read_consent, write_consent
from adsum.storage.files import OsFolder, write_whole
from adsum.testing.block_disk import BlockDisk, PowerLost


def test_a_consent_is_read_as_it_was_written_and_is_the_owner_s_alone(tmp_path: Path) -> None:
    folder = OsFolder(tmp_path / "raft")
    assert read_consent(folder) == ()
    write_consent(folder, ("a", "b"))
    assert read_consent(folder) == ("a", "b")
    assert (tmp_path / "raft" / "consent").read_bytes() == bytes.fromhex("82 01 82 61 61 61 62")
    assert (tmp_path / "raft" / "consent").stat().st_mode & 0o777 == 0o600
    write_consent(folder, ("a", "c"))
    assert read_consent(folder) == ("a", "c")


def test_a_consent_that_is_taken_back_leaves_no_file(tmp_path: Path) -> None:
    folder = OsFolder(tmp_path / "raft")
    write_consent(folder, ("a", "b"))
    write_consent(folder, ())
    write_consent(folder, ())
    assert folder.names() == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        cbor2.dumps(["a", "b"]),
        cbor2.dumps([2, ["a", "b"]]),
        cbor2.dumps([1, []]),
        cbor2.dumps([1, ["a", 1]]),
        cbor2.dumps([1, "ab"]),
        cbor2.dumps([1, ["a"] * 33]),
    ],
)
def test_what_makes_no_sense_is_not_taken_for_no_consent(content: bytes) -> None:
    disk = BlockDisk(Random(0))
    write_whole(disk, FILE, content)
    assert read_consent(disk) is None


@pytest.mark.parametrize("operation", range(5))
@pytest.mark.parametrize("seed", range(8))
def test_wherever_the_power_goes_there_is_the_consent_of_before_or_the_new_one(
    operation: int, seed: int
) -> None:
    disk = BlockDisk(Random(seed))
    write_consent(disk, ("a", "b"))
    disk.faults.crash_before = operation
    with pytest.raises(PowerLost):
        write_consent(disk, ("a", "c"))
    disk.lose_power()
    assert read_consent(disk) in (("a", "b"), ("a", "c"))


def test_a_consent_survives_the_power_once_it_was_written() -> None:
    for seed in range(8):
        disk = BlockDisk(Random(seed))
        write_consent(disk, ("a", "b"))
        disk.lose_power()
        assert read_consent(disk) == ("a", "b")
