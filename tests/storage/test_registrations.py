from __future__ import annotations

import errno
from pathlib import Path

import pytest

from adsum.catalog.saved import encode_service, service_path
from adsum.storage import registrations
from adsum.storage.disk import OsDisk
from adsum.testing.samples import WEB

PATH = service_path(WEB.service_id)


class FailingDisk(OsDisk):
    number = errno.EIO

    def read(self, path: str) -> bytes | None:
        if path == PATH:
            raise OSError(self.number, "the disk says no")
        return super().read(path)


@pytest.fixture
def disk(tmp_path: Path) -> FailingDisk:
    made = FailingDisk(tmp_path)
    made.write_durably(PATH, encode_service(WEB))
    made.write_durably("services/other", encode_service(WEB))
    return made


def test_a_file_on_a_bad_sector_is_set_aside_and_costs_only_itself(
    disk: FailingDisk, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(registrations.load(disk).services) == 1
    assert disk.names("services/") == ["other"]
    assert "the disk says no" in caplog.text


def test_a_folder_in_the_place_of_a_file_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / PATH).mkdir(parents=True)
    assert registrations.load(OsDisk(tmp_path)).services == ()
    assert (tmp_path / (PATH + ".damaged")).is_dir()


def test_a_file_that_the_agent_may_not_read_stops_the_start_and_stays(disk: FailingDisk) -> None:
    """Its owner can be mended, and then nothing is lost."""
    disk.number = errno.EACCES
    with pytest.raises(OSError, match="the disk says no"):
        registrations.load(disk)
    assert PATH.removeprefix("services/") in disk.names("services/")
