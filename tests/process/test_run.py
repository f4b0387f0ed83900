"""From a failure to what the operator reads, and to an exit status."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from adsum.process.run import keep_pid, remove_pid, run_to_the_end
from adsum.process.sockets import CannotStart
from adsum.storage.failures import StorageFailed
from adsum.storage.memory import MemoryDisk
from adsum.storage.owed import Owed


class Failing:
    """An assembly that ends by what it is given."""

    def __init__(self, error: BaseException) -> None:
        async def run() -> None:
            raise BaseExceptionGroup("of a nursery", [error])

        self.run: Callable[[], Awaitable[None]] = run


def ended_by(error: BaseException) -> int:
    return run_to_the_end(Failing(error), "/data")  # type: ignore[arg-type]


def test_a_disk_that_failed_is_named_with_its_folder(caplog: pytest.LogCaptureFixture) -> None:
    assert ended_by(StorageFailed("could not sync services/a: Input/output error")) == 1
    assert caplog.text.endswith(
        "the agent stops, because it cannot keep what it promised in /data: "
        "could not sync services/a: Input/output error\n"
    )


def test_another_error_of_the_system_is_not_taken_for_the_disk_s(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        ended_by(OSError(24, "Too many open files", "/proc/self/statm"))
    assert raised.group_contains(OSError, match="statm")
    assert caplog.messages == []


def test_what_the_operator_can_mend_is_a_sentence(caplog: pytest.LogCaptureFixture) -> None:
    assert ended_by(CannotStart("generation cannot be read: Permission denied")) == 1
    assert caplog.messages == ["the agent stops: generation cannot be read: Permission denied"]


# The pid file.


def test_the_pid_file_is_there_as_long_as_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    keep_pid(str(path), Owed(MemoryDisk()))
    assert path.read_text() == f"{os.getpid()}\n"
    remove_pid(str(path))
    assert not path.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's way to have a full disk")
def test_a_pid_file_for_which_there_is_no_room_is_written_later(caplog: pytest.LogCaptureFixture) -> None:
    owed = Owed(MemoryDisk())
    with caplog.at_level(logging.WARNING):
        keep_pid("/dev/full", owed)
    assert owed.files == ["/dev/full"]
    assert caplog.messages == [
        "the pid file /dev/full is not written yet: no space left on device: make room on its disk"
    ]


def test_a_pid_file_that_can_never_be_written_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"the pid file .* cannot be written: Is a directory"):
        keep_pid(str(tmp_path), Owed(MemoryDisk()))
