"""Who may use a data folder, and how one that is gone is noticed."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from adsum.process import data_folder
from adsum.process.data_folder import DataFolder
from adsum.process.sockets import CannotStart
from adsum.storage.failures import StorageFailed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "below" / "data"


@pytest.fixture
def held(path: Path) -> Iterator[DataFolder]:
    folder = DataFolder(str(path))
    yield folder
    folder.close()


def test_a_folder_is_made_for_its_owner_alone(held: DataFolder) -> None:
    assert stat.S_IMODE(held.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((held.path / "lock").stat().st_mode) == 0o600


def test_one_folder_is_for_one_agent_at_a_time(held: DataFolder) -> None:
    with pytest.raises(CannotStart, match=r"the data folder .*/data is in use by another agent"):
        DataFolder(str(held.path))
    held.close()
    DataFolder(str(held.path)).close()


def test_an_agent_of_before_which_locks_the_file_alone_is_respected(path: Path) -> None:
    path.mkdir(parents=True)
    with (path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CannotStart, match="in use by another agent"):
            DataFolder(str(path))


def test_where_the_file_cannot_be_made_the_folder_s_lock_does(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_folder, "_opened", lambda _lock: None)
    folder = DataFolder(str(path))
    assert list(path.iterdir()) == []
    with pytest.raises(CannotStart, match="in use by another agent"):
        DataFolder(str(path))
    folder.close()


def test_where_folders_have_no_locks_the_file_s_does(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    folder = DataFolder(str(path))
    with pytest.raises(CannotStart, match="in use by another agent"):
        DataFolder(str(path))
    folder.close()


def test_a_path_that_is_no_folder_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart, match=r"the data folder .*/file cannot be used: File exists"):
        DataFolder(str(tmp_path / "file"))


# A folder that goes.


def test_a_folder_that_is_as_it_was_is_not_renewed(held: DataFolder) -> None:
    (held.path / "node-id").write_text("x")
    assert not held.renew()


@pytest.mark.parametrize("how", ["deleted", "emptied", "moved away", "replaced"])
def test_a_folder_that_is_gone_is_made_anew_and_held_again(held: DataFolder, how: str) -> None:
    match how:
        case "deleted":
            shutil.rmtree(held.path)
        case "emptied":
            (held.path / "lock").unlink()
        case "moved away" | "replaced":
            held.path.rename(held.path.with_name("aside"))
    if how == "replaced":
        held.path.mkdir()
    assert held.renew()
    assert not held.renew()
    assert (held.path / "lock").exists()
    with pytest.raises(CannotStart, match="in use by another agent"):
        DataFolder(str(held.path))


def test_a_new_folder_that_another_agent_took_first_ends_this_one(held: DataFolder) -> None:
    shutil.rmtree(held.path)
    other = DataFolder(str(held.path))
    with pytest.raises(
        StorageFailed, match="another agent has begun a new one there; give each a data_dir of"
    ):
        held.renew()
    other.close()


def test_a_folder_that_cannot_be_made_is_gone_until_it_can(held: DataFolder) -> None:
    shutil.rmtree(held.path)
    held.path.write_text("in the way")
    assert not held.renew()
    held.path.unlink()
    assert held.renew()


def test_a_folder_that_another_client_of_its_file_server_replaced_is_another(
    held: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fstat

    def stale(_descriptor: int) -> os.stat_result:
        monkeypatch.setattr(os, "fstat", real)
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(os, "fstat", stale)
    assert held.renew()
