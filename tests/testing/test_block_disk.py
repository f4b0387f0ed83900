"""A simulated disk under a process that clients leave no file descriptors, or that ends in the middle."""

from __future__ import annotations

from random import Random

import pytest

from adsum.storage.descriptor_reserve import RESERVED, DescriptorReserve
from adsum.storage.failures import StorageFailed
from adsum.testing.block_disk import BlockDisk, PowerLost


def test_while_clients_hold_all_descriptors_as_many_files_are_open_as_are_reserved() -> None:
    disk = BlockDisk(Random(1))
    disk.hold_descriptors()
    files = [disk.create(f"file {number}") for number in range(RESERVED)]
    assert not disk.has_waited
    files[0].close()
    disk.open("file 1")
    assert not disk.has_waited
    disk.open("file 2")
    assert disk.has_waited


def test_without_a_reserve_nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DescriptorReserve, "opened", lambda _reserve, open_: open_())
    disk = BlockDisk(Random(1))
    disk.hold_descriptors()
    with pytest.raises(StorageFailed, match="could not open file: Too many open files"):
        disk.create("file")
    disk.release_descriptors()
    disk.create("file")


def test_the_next_process_has_descriptors_again() -> None:
    disk = BlockDisk(Random(1))
    disk.hold_descriptors()
    disk.kill()
    for number in range(RESERVED + 2):
        disk.create(f"file {number}")
    assert not disk.has_waited


def test_starts_that_follow_end_at_operations_of_their_own() -> None:
    disk = BlockDisk(Random(1))
    disk.faults.crash_before, disk.faults.later_crashes = 1, [0]
    disk.create("file")
    with pytest.raises(PowerLost):
        disk.sync()
    disk.kill()
    with pytest.raises(PowerLost):
        disk.sync()
    disk.kill()
    disk.sync()
    assert disk.names() == ["file"]


def test_where_zeros_are_spared_the_write_after_them_goes_astray() -> None:
    disk = BlockDisk(Random(1))
    for name in ("log", "spare"):
        disk.create(name).write(0, b"whole" * 200)
    disk.faults.misdirected_to, disk.faults.spares_zeros = ("log", 512), True
    spare = disk.open("spare")
    spare.write(0, bytes(512))
    spare.write(0, b"header")
    assert disk.open("log").read(510, 10) == b"whheaderle"
    assert spare.read(0, 6) == bytes(6)
