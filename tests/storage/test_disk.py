"""The real disk and the simulated one behave alike while the power stays on."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum.storage.disk import Disk, OsDisk
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
    disk.remove_durably("services/a")


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
