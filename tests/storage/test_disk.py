"""The real disk and the simulated one behave alike while the power stays on."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adsum.effects import FileChange, RemoveFile, WriteFile
from adsum.storage.disk import Disk, OsDisk
from adsum.storage.failures import StorageFailed
from adsum.testing.disk import SimulatedDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return OsDisk(tmp_path / "data") if request.param == "real" else SimulatedDisk()


def test_what_was_written_is_read_and_listed_in_order(disk: Disk) -> None:
    disk.write_durably("services/b", b"2")
    disk.replace("services/a", b"1")
    disk.write_durably("elsewhere", b"3")
    assert disk.names("services/") == ["a", "b"]
    assert (disk.read("services/a"), disk.read("services/b"), disk.read("elsewhere")) == (b"1", b"2", b"3")


def test_what_is_missing_is_none_and_an_empty_list(disk: Disk) -> None:
    assert disk.read("services/a") is None
    assert disk.names("services/") == []
    disk.change((RemoveFile("services/a"),))


def test_a_file_is_replaced_as_a_whole(disk: Disk) -> None:
    disk.write_durably("a", b"a longer content")
    disk.write_durably("a", b"short")
    assert disk.read("a") == b"short"
    disk.replace("a", b"")
    assert disk.read("a") == b""


def test_what_was_set_aside_is_out_of_the_way_but_kept(disk: Disk) -> None:
    disk.write_durably("checks/a", b"rotten")
    aside = disk.set_aside("checks/a")
    assert disk.read("checks/a") is None
    assert disk.names("checks/") == []
    assert aside.endswith("a.damaged")
    assert disk.read("checks/a.damaged") == b"rotten"


def test_a_power_loss_keeps_what_was_synced_and_nothing_else() -> None:
    disk = SimulatedDisk()
    disk.write_durably("a", b"synced")
    disk.replace("b", b"not synced")
    disk.replace("a", b"nor this")
    disk.lose_power()
    assert (disk.read("a"), disk.read("b")) == (b"synced", None)


def test_nothing_is_left_over_beside_a_file(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path)
    disk.write_durably("services/a", b"1")
    disk.replace("services/a", b"2")
    assert [path.name for path in (tmp_path / "services").iterdir()] == ["a"]


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path / "data")
    disk.write_durably("services/a", b"a token may be in here")
    assert (tmp_path / "data" / "services" / "a").stat().st_mode & 0o077 == 0
    assert (tmp_path / "data" / "services").stat().st_mode & 0o077 == 0


# A disk that fails, at each step of a change of several files.

CHANGE: tuple[FileChange, ...] = (
    RemoveFile("checks/gone"),
    WriteFile("services/a", b"new"),
    WriteFile("checks/a", b"new"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    disk = OsDisk(tmp_path)
    for path in ("services/a", "checks/gone"):
        disk.write_durably(path, b"old")
    return tmp_path


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def failing(monkeypatch: pytest.MonkeyPatch, name: str, number: int, wanted: Callable[[Any], bool]) -> None:
    """That call of the system fails where its first argument is the one."""
    real = getattr(os, name)

    def call(argument: Any, *others: Any) -> Any:
        if wanted(argument):
            raise OSError(number, os.strerror(number))
        return real(argument, *others)

    monkeypatch.setattr(os, name, call)


def is_file_of(name: str) -> Callable[[int], bool]:
    return lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}").endswith(name)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
def test_whatever_fails_while_a_file_is_written_leaves_everything_as_it_was(
    root: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "open", number, lambda path: str(path).endswith("checks/a.new"))
    with pytest.raises(OSError, match=os.strerror(number)):
        OsDisk(root).change(CHANGE)
    assert content(root) == {"services/a": b"old", "checks/gone": b"old"}


def test_room_that_is_missed_only_at_the_sync_leaves_everything_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "fsync", errno.ENOSPC, is_file_of("checks/a.new"))
    with pytest.raises(OSError, match="No space left"):
        OsDisk(root).change(CHANGE)
    assert content(root) == {"services/a": b"old", "checks/gone": b"old"}


@pytest.mark.parametrize(
    ("name", "number", "wanted"),
    [
        ("fsync", errno.EIO, is_file_of("services/a.new")),
        ("fsync", errno.ENOSPC, is_file_of("/services")),
        ("replace", errno.EROFS, lambda path: path.name == "a.new"),
    ],
    ids=["a file's sync", "a folder's sync", "a rename"],
)
def test_after_a_failed_sync_or_rename_nobody_knows_what_the_disk_holds(
    root: Path, name: str, number: int, wanted: Callable[[Any], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, name, number, wanted)
    with pytest.raises(StorageFailed, match=os.strerror(number)):
        OsDisk(root).change(CHANGE)


def test_each_folder_is_synced_once_after_all_renames_and_with_it_who_holds_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    rename = os.replace

    def sync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        done.append(f"sync {path.relative_to(tmp_path)}")

    def replace(old: Path, new: Path) -> None:
        done.append("rename")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    disk = OsDisk(tmp_path)
    disk.change(tuple(WriteFile(path, b"1") for path in ("services/a", "services/b", "checks/a")))
    assert done[:3] == ["sync services/a.new", "sync services/b.new", "sync checks/a.new"]
    assert done[3:] == ["rename", "rename", "rename", "sync services", "sync checks", "sync ."]
    done.clear()
    disk.change((WriteFile("services/a", b"2"),))
    assert done == ["sync services/a.new", "rename", "sync services"]


def test_a_new_folder_that_a_refused_change_made_is_synced_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = OsDisk(tmp_path)
    with monkeypatch.context() as full:
        failing(full, "fsync", errno.ENOSPC, is_file_of("services/a.new"))
        with pytest.raises(OSError, match="No space left"):
            disk.write_durably("services/a", b"1")
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda of: synced.append(os.readlink(f"/proc/self/fd/{of}")))
    disk.write_durably("services/a", b"1")
    assert synced[-1] == str(tmp_path)


def test_a_folder_that_another_process_made_is_synced_with_the_first_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one may have ended before it was."""
    (tmp_path / "checks" / "state").mkdir(parents=True)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda of: synced.append(os.readlink(f"/proc/self/fd/{of}")))
    disk = OsDisk(tmp_path)
    disk.write_durably("checks/state/a", b"1")
    assert sorted(synced[1:]) == [str(tmp_path), str(tmp_path / "checks"), str(tmp_path / "checks" / "state")]
    synced.clear()
    disk.write_durably("checks/state/b", b"1")
    assert synced[1:] == [str(tmp_path / "checks" / "state")]


def test_a_removal_that_is_refused_has_changed_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "unlink", errno.EROFS, lambda path: path.name == "gone")
    with pytest.raises(OSError, match="Read-only"):
        OsDisk(root).change(CHANGE)
    assert content(root) == {"services/a": b"old", "checks/gone": b"old"}


def test_with_no_file_left_to_open_nothing_was_changed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "open", errno.EMFILE, lambda path: str(path).endswith("/checks"))
    with pytest.raises(OSError, match="Too many open files"):
        OsDisk(root).change(CHANGE)
    assert content(root) == {"services/a": b"old", "checks/gone": b"old"}


def test_of_two_changes_of_one_file_the_later_counts(disk: Disk) -> None:
    disk.change((WriteFile("a", b"1"), WriteFile("b", b"1"), WriteFile("a", b"2"), RemoveFile("b")))
    assert (disk.read("a"), disk.read("b")) == (b"2", None)


def test_what_is_gone_already_is_removed_where_nothing_can_be(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "unlink", errno.EROFS, lambda _path: True)
    OsDisk(root).change((RemoveFile("checks/never"),))
    OsDisk(root).change((RemoveFile("nowhere/never"),))


def test_a_damaged_file_that_cannot_be_renamed_stays_and_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "replace", errno.EROFS, lambda _path: True)
    assert OsDisk(root).set_aside("services/a") == (
        f"{root}/services/a itself, for it cannot be renamed (Read-only file system),"
    )


def test_a_full_disk_refuses_what_is_new_and_lets_go_of_what_is_old() -> None:
    disk = SimulatedDisk()
    disk.write_durably("a", b"1")
    disk.fill()
    with pytest.raises(OSError, match="No space left"):
        disk.write_durably("a", b"2")
    with pytest.raises(OSError, match="No space left"):
        disk.replace("b", b"2")
    disk.change((RemoveFile("a"),))
    assert disk.files == {}


def test_a_disk_mounted_read_only_refuses_every_change_there_would_be() -> None:
    disk = SimulatedDisk()
    disk.write_durably("a", b"1")
    disk.is_read_only = True
    for change in (WriteFile("b", b"1"), RemoveFile("a")):
        with pytest.raises(OSError, match="Read-only"):
            disk.change((change,))
    disk.change((RemoveFile("b"),))
    assert disk.files == {"a": b"1"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOENT])
def test_a_first_rename_that_fails_changed_nothing_and_refuses(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The folder has no room for another name, or is being deleted."""
    failing(monkeypatch, "replace", number, lambda _path: True)
    with pytest.raises(OSError, match=os.strerror(number)):
        OsDisk(root).write_durably("services/a", b"2")
    assert not list(root.glob("services/*.new"))


def test_a_folder_that_is_deleted_among_several_changes_ends_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "replace", errno.ENOENT, lambda path: "checks" in str(path))
    with pytest.raises(FileNotFoundError):
        OsDisk(root).change((WriteFile("services/a", b"2"), WriteFile("checks/a", b"2")))
