"""A folder on a disk that does what disks do: forget, tear, rot, refuse, and write in the wrong place.

It stands behind the same door as `adsum.storage.files.OsFolder`, so the log that ships runs on it
unchanged.

- Nothing is durable before its sync. When the power goes, each unsynced sector is independently there or
  not; of several versions any may be the one. Names behave likewise, except that operations on one name
  keep their order.
- A killed process leaves everything it wrote, synced or not, for the next one to read; a power loss may
  take it yet.
- A failed sync behaves as Linux does: some sectors got through, the rest reads back fine and is never
  written.
- Rot and misdirected writes harm what was durable. `fault_atlas` sees to it that a cluster is never asked
  to survive more than it can.

- While clients hold all file descriptors, the log opens what it needs from the reserve that ships.

`crash_before` counts the operations and takes the power, or only the process, at one of them: that is how a
test visits every point.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from adsum.storage.descriptor_reserve import DescriptorReserve
from adsum.storage.failures import StorageFailed
from adsum.storage.files import SECTOR_BYTES, DiskFull, ReadFailed


class PowerLost(BaseException):
    """The process is gone in the middle of an operation; not an error it could handle."""


@dataclass(slots=True)
class _Content:
    """What the process reads, what the platters hold, and the versions of sectors on the way between."""

    live: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: dict[int, list[bytes]] = field(default_factory=dict)
    unreadable: set[int] = field(default_factory=set)

    def write(self, offset: int, content: bytes) -> None:
        _grow(self.live, offset + len(content))
        self.live[offset : offset + len(content)] = content
        for sector in _sectors(offset, len(content)):
            self.unsynced.setdefault(sector, []).append(self._sector(sector))
            self.unreadable.discard(sector)

    def sync(self) -> None:
        for sector, versions in self.unsynced.items():
            self._persist(sector, versions[-1])
        self.unsynced.clear()

    def sync_at(self, offset: int, length: int) -> None:
        for sector in _sectors(offset, length):
            self._persist(sector, self.unsynced.pop(sector)[-1])

    def persist_some(self, random: Random) -> None:
        for sector, versions in sorted(self.unsynced.items()):
            chosen = random.randrange(len(versions) + 1)
            if chosen:
                self._persist(sector, versions[chosen - 1])
        self.unsynced.clear()

    def _persist(self, sector: int, content: bytes) -> None:
        start = sector * SECTOR_BYTES
        _grow(self.durable, start + len(content))
        self.durable[start : start + len(content)] = content

    def _sector(self, sector: int) -> bytes:
        return bytes(self.live[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES])


@dataclass(frozen=True, slots=True)
class _Renaming:
    """An operation on names that a power loss may undo: old to new; one of them is empty for create and
    remove."""

    old: str
    new: str
    content: _Content


@dataclass(slots=True)
class DiskFaults:
    """What will go wrong, set by a test or a swarm at any time."""

    crash_before: int | None = None  # operations from now until the power goes
    spares_power: bool = False  # it is only the process that ends there
    later_crashes: list[int] = field(default_factory=list)  # the same, for the starts that follow
    failing_syncs: bool = False
    syncs_find_no_room: bool = False
    capacity_bytes: int | None = None
    misdirected_to: tuple[str, int] | None = None  # where the next write lands instead, once
    spares_zeros: bool = False  # it is the next one that is not of zeros alone
    free_descriptors: int | None = None  # that clients do not hold; None: as many as anybody wants


class BlockDisk:
    def __init__(self, random: Random) -> None:
        self.faults = DiskFaults()
        self.operations = 0
        self.has_waited = False  # for a descriptor, lately
        self._reserve = self._new_reserve()
        self._random = random
        self._names: dict[str, _Content] = {}
        self._durable_names: dict[str, _Content] = {}
        self._unsynced_names: list[_Renaming] = []

    # The door, as `files.Folder`.

    def names(self) -> list[str]:
        return sorted(self._names)

    def create(self, name: str) -> _OpenFile:
        self._check_room(1)
        self._hold_descriptor(name)
        self._names[name] = content = _Content()
        self._unsynced_names.append(_Renaming("", name, content))
        self._step()
        return _OpenFile(self, name, content)

    def open(self, name: str) -> _OpenFile:
        if name not in self._names:
            raise StorageFailed(f"could not open {name}: no such file")
        self._hold_descriptor(name)
        return _OpenFile(self, name, self._names[name])

    def rename(self, old: str, new: str) -> None:
        content = self._names.pop(old)
        self._names[new] = content
        self._unsynced_names.append(_Renaming(old, new, content))
        self._step()

    def remove(self, name: str) -> None:
        content = self._names.pop(name)
        self._unsynced_names.append(_Renaming(name, "", content))
        self._step()

    def sync(self) -> None:
        self._step()
        if self.faults.failing_syncs:
            raise StorageFailed("could not sync the folder: input/output error")
        self._durable_names = dict(self._names)
        self._unsynced_names.clear()

    # What happens to it.

    def kill(self) -> None:
        """The process ends; the machine goes on, and with it everything written."""
        faults = self.faults
        faults.crash_before = faults.later_crashes.pop(0) if faults.later_crashes else None
        faults.misdirected_to = faults.free_descriptors = None
        self._reserve = self._new_reserve()

    def lose_power(self) -> None:
        self.kill()
        self._keep_some_names()
        for content in self._durable_names.values():
            content.persist_some(self._random)
            content.live = bytearray(content.durable)
        self._names = dict(self._durable_names)

    def hold_descriptors(self) -> None:
        """Clients do, all that the log has not reserved."""
        self.faults.free_descriptors = 0

    def release_descriptors(self) -> None:
        self.faults.free_descriptors = None
        self._reserve.fill()

    def rot(self, name: str, bit: int) -> None:
        content = self._names[name]
        for image in (content.live, content.durable):
            if bit // 8 < len(image):
                image[bit // 8] ^= 1 << bit % 8

    def make_unreadable(self, name: str, sector: int) -> None:
        self._names[name].unreadable.add(sector)

    def bits(self, name: str) -> int:
        return len(self._names[name].live) * 8

    @property
    def used_bytes(self) -> int:
        return sum(len(content.live) for content in self._names.values())

    def used_bits(self, name: str) -> Iterator[int]:
        """Every bit in a sector that is not all zeros."""
        live = self._names[name].live
        for start in range(0, len(live), SECTOR_BYTES):
            if any(live[start : start + SECTOR_BYTES]):
                yield from range(start * 8, min(start + SECTOR_BYTES, len(live)) * 8)

    def copy(self, random: Random) -> BlockDisk:
        """The same durable bytes on another disk: what a test flips does not harm the next test."""
        assert not self._unsynced_names, "only a disk at rest is copied"
        other = BlockDisk(random)
        for name, content in self._names.items():
            assert not content.unsynced, "only a disk at rest is copied"
            other._names[name] = _Content(bytearray(content.live), bytearray(content.durable))
        other._durable_names = dict(other._names)
        return other

    # Inside.

    def write(self, content: _Content, offset: int, written: bytes) -> None:
        self._check_room(max(0, offset + len(written) - len(content.live)))
        if self.faults.misdirected_to is not None and self._can_go_astray(content, offset, written):
            (elsewhere, offset), self.faults.misdirected_to = self.faults.misdirected_to, None
            content = self._names.get(elsewhere, _Content())  # a file that is gone has nothing to be harmed
            written = written[: max(0, len(content.live) - offset)]
            content.write(offset, written)
            content.sync_at(offset, len(written))  # by the disk itself: whoever syncs means another file
        else:
            content.write(offset, written)
        self._step()

    def _can_go_astray(self, content: _Content, offset: int, written: bytes) -> bool:
        """One that makes a file longer cannot: it has no place of its own to be kept from."""
        is_spared = self.faults.spares_zeros and not any(written)
        return len(content.live) >= offset + len(written) and not is_spared

    def closed(self) -> None:
        if self.faults.free_descriptors is not None:
            self.faults.free_descriptors += 1
            self._reserve.fill()

    def sync_content(self, name: str, content: _Content) -> None:
        self._step()
        if self.faults.failing_syncs:
            content.persist_some(self._random)
            raise StorageFailed(f"could not sync {name}: input/output error")
        if self.faults.syncs_find_no_room:
            content.persist_some(self._random)
            raise DiskFull(f"could not sync {name}: no space left")
        content.sync()

    def _hold_descriptor(self, name: str) -> None:
        try:
            self._reserve.opened(self._take_descriptor)
        except OSError as error:
            raise StorageFailed(f"could not open {name}: {error.strerror}") from error

    def _take_descriptor(self) -> int:
        if self.faults.free_descriptors == 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if self.faults.free_descriptors is not None:
            self.faults.free_descriptors -= 1
        return 0

    def _give_descriptor(self, _descriptor: int) -> None:
        if self.faults.free_descriptors is not None:
            self.faults.free_descriptors += 1

    def _await_descriptor(self, _error: OSError) -> None:
        """A client closes one."""
        self.has_waited = True
        self._give_descriptor(0)

    def _new_reserve(self) -> DescriptorReserve:
        return DescriptorReserve(self._take_descriptor, self._give_descriptor, self._await_descriptor)

    def _step(self) -> None:
        self.operations += 1
        if self.faults.crash_before is not None:
            self.faults.crash_before -= 1
            if self.faults.crash_before < 0:
                raise PowerLost

    def _check_room(self, more_bytes: int) -> None:
        capacity = self.faults.capacity_bytes
        if more_bytes and capacity is not None and self.used_bytes + more_bytes > capacity:
            raise DiskFull("no space left on the simulated disk")

    def _keep_some_names(self) -> None:
        """Any of the operations may be lost, and with one all later ones that touch the same names."""
        lost = set[str]()
        for operation in self._unsynced_names:
            touched = {operation.old, operation.new} - {""}
            if touched & lost or self._random.random() < 0.5:
                lost |= touched
                continue
            self._durable_names.pop(operation.old, None)
            if operation.new:
                self._durable_names[operation.new] = operation.content
        self._unsynced_names.clear()


class _OpenFile:
    def __init__(self, disk: BlockDisk, name: str, content: _Content) -> None:
        self._disk = disk
        self._name = name
        self._content = content

    def read(self, offset: int, length: int) -> bytes:
        length = max(0, min(length, len(self._content.live) - offset))
        if self._content.unreadable.intersection(_sectors(offset, length)):
            raise ReadFailed(f"{self._name} cannot be read at {offset}: input/output error")
        return bytes(self._content.live[offset : offset + length])

    def write(self, offset: int, content: bytes) -> None:
        self._disk.write(self._content, offset, content)

    def sync(self) -> None:
        self._disk.sync_content(self._name, self._content)

    def length(self) -> int:
        return len(self._content.live)

    def close(self) -> None:
        """Nothing is lost by it, and nothing saved."""
        self._disk.closed()


def _grow(image: bytearray, length: int) -> None:
    if len(image) < length:
        image.extend(bytes(length - len(image)))


def _sectors(offset: int, length: int) -> range:
    return range(offset // SECTOR_BYTES, -(-(offset + length) // SECTOR_BYTES))
