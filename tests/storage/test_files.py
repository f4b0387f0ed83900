from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adsum.raft.batch import LogChange
from adsum.storage.failures import StorageFailed
from adsum.storage.files import (
    DiskFull,
    Folder,
    OsFile,
    OsFolder,
    ReadFailed,
    read_whole,
    write_whole,
)
from adsum.storage.recovery import LogVerdict
from adsum.storage.segment import SEGMENT_HEADER_BYTES
from adsum.storage.segment_files import segment_name
from tests.storage.raft_logs import entries, new_disk, opened, snapshot, state


def on_os(path: Path) -> Folder:
    return OsFolder(path / "raft")


def simulated(_path: Path) -> Folder:
    return new_disk()


@pytest.mark.parametrize("make", [on_os, simulated])
def test_the_real_folder_and_the_simulated_one_behave_alike_while_the_power_stays_on(
    tmp_path: Path, make: Callable[[Path], Folder]
) -> None:
    folder = make(tmp_path)
    file = folder.create("b")
    file.write(5, b"world")
    file.write(0, b"hello")
    assert (file.read(0, 100), file.read(8, 1), file.read(10, 4), file.length()) == (
        b"helloworld",
        b"l",
        b"",
        10,
    )
    file.sync()
    file.close()
    write_whole(folder, "a", b"small")
    write_whole(folder, "a", b"smaller")
    folder.create("c").close()
    folder.rename("b", "c")
    folder.sync()
    assert folder.names() == ["a", "c"]
    assert (read_whole(folder, "a"), read_whole(folder, "c")) == (b"smaller", b"helloworld")
    folder.create("c").close()
    assert read_whole(folder, "c") == b""
    folder.remove("c")
    assert folder.names() == ["a"]
    with pytest.raises(StorageFailed, match="could not open c"):
        folder.open("c")


def test_a_full_disk_is_told_from_a_failing_one() -> None:
    full = OsFile(os.open("/dev/full", os.O_RDWR), "full")
    with pytest.raises(DiskFull, match="no space left"):
        full.write(0, b"x")
    full.close()
    reader, writer = os.pipe()  # has no offsets, and nothing to sync
    for descriptor in (reader, writer):
        pipe = OsFile(descriptor, "pipe")
        with pytest.raises(StorageFailed, match="could not write pipe"):
            pipe.write(0, b"x")
        with pytest.raises(StorageFailed, match="could not sync pipe"):
            pipe.sync()
        with pytest.raises(ReadFailed, match="pipe cannot be read at 7"):
            pipe.read(7, 1)
        pipe.close()


def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    folder = OsFolder(tmp_path / "raft")
    folder.create("a").close()
    assert (tmp_path / "raft").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "raft" / "a").stat().st_mode & 0o777 == 0o600
    folder.close()


@pytest.mark.parametrize("damage", ["flipped", "shortened", "removed header"])
def test_file_surgery_on_a_real_log_is_found(tmp_path: Path, damage: str) -> None:
    folder = OsFolder(tmp_path / "raft")
    log = opened(folder).log
    log.append([LogChange(entries=entries(1, 5), hard_state=state(1, commit=2))])
    log.close()
    path = tmp_path / "raft" / segment_name(1)
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[SEGMENT_HEADER_BYTES + 100] ^= 4
    elif damage == "shortened":
        del content[SEGMENT_HEADER_BYTES + 512 :]
    else:
        content[:100] = bytes(100)
    path.write_bytes(content)
    found = opened(folder, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT
    assert found.log.identity.log == "log-2"
    found.log.close()
    folder.close()


def test_a_log_holds_as_many_descriptors_however_often_its_segment_changes(tmp_path: Path) -> None:
    folder = OsFolder(tmp_path / "raft")
    log = opened(folder).log
    log.append([LogChange(entries=entries(1, 3), hard_state=state(1))])
    held = len(os.listdir("/proc/self/fd"))
    for epoch in range(20):
        log.join("cluster", epoch)
        log.prepare_next()
        log.append([LogChange(entries=entries(log.last_index + 1, log.last_index + 2, size=1000))])
        log.compact(snapshot(log, log.last_index), log.last_index)
    assert len(os.listdir("/proc/self/fd")) == held
    log.close()
    folder.close()
