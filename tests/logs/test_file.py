from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from adsum.logs import setup
from adsum.logs.settings import LogSettings
from adsum.now import HOUR, SECOND
from tests.logs.support import log, logging_to


def set_aside(folder: Path) -> list[Path]:
    return sorted(folder.glob("agent-*.log"))


def test_a_folder_is_given_a_file_of_our_name(tmp_path: Path) -> None:
    with logging_to(LogSettings(file=f"{tmp_path}/")):
        log.info("here")
    assert "here" in (tmp_path / "adsum.log").read_text()


def test_a_file_is_set_aside_when_it_has_grown_enough(tmp_path: Path) -> None:
    with logging_to(LogSettings(file=str(tmp_path / "agent.log"), rotate_bytes=100)):
        for n in range(4):
            log.info("line %d of some sixty bytes or more, with stamp and name", n)
    older = set_aside(tmp_path)
    assert [path.read_text().count("\n") for path in older] == [2]
    assert (tmp_path / "agent.log").read_text().count("\n") == 2


@pytest.mark.parametrize(("kept", "left"), [(0, 5), (2, 2), (-1, 0)])
def test_old_files_are_removed_past_the_number_kept(tmp_path: Path, kept: int, left: int) -> None:
    (tmp_path / "agent-notes.log").write_text("not ours")
    with logging_to(LogSettings(file=str(tmp_path / "agent.log"), rotate_bytes=1, rotate_max_files=kept)):
        for n in range(6):
            log.info("line %d", n)
    ours = [path for path in set_aside(tmp_path) if path.name != "agent-notes.log"]
    assert len(ours) == left
    assert "line 5" in (tmp_path / "agent.log").read_text()
    assert (tmp_path / "agent-notes.log").exists()
    if kept == 2:
        assert ["line 3" in ours[0].read_text(), "line 4" in ours[1].read_text()] == [True, True]


def test_a_file_is_set_aside_when_it_is_old_even_across_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "agent.log"
    path.write_text("from yesterday\n")
    os.utime(path, (0, 0))
    with logging_to(LogSettings(file=str(path), rotate_duration_ns=HOUR)):
        log.info("today")
    [older] = set_aside(tmp_path)
    assert older.read_text() == "from yesterday\n"
    assert path.read_text().endswith("today\n")


def test_a_young_file_is_written_on(tmp_path: Path) -> None:
    path = tmp_path / "agent.log"
    path.write_text("just now\n")
    with logging_to(LogSettings(file=str(path), rotate_duration_ns=3600 * SECOND)):
        log.info("more")
    assert set_aside(tmp_path) == []
    assert path.read_text().startswith("just now\n")


def test_a_file_that_cannot_be_opened_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "agent.log").mkdir(mode=0)
    (tmp_path / "agent.log" / "adsum.log").mkdir()
    with pytest.raises(setup.CannotLog, match=r"the log file .*agent\.log cannot be written: Is a directory"):
        setup.start(LogSettings(file=str(tmp_path / "agent.log")))


def test_a_file_for_which_there_is_no_room_yet_is_begun_when_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_arguments: object, **_more: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    path = tmp_path / "logs" / "agent.log"
    with logging_to(LogSettings(file=str(path))) as stream:
        log.info("lost")
        monkeypatch.undo()
        log.info("there")
    assert stream.counters.lost_writing == 2  # with the warning
    assert path.read_text().endswith("there\n")
    assert f"the log file {path} cannot be written yet: no space left on device" in capsys.readouterr().out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's way to have a full disk")
def test_a_full_disk_costs_lines_and_nothing_else() -> None:
    with logging_to(LogSettings(file="/dev/full", rotate_duration_ns=0)) as stream:
        log.info("lost")
        log.info("lost as well")
        assert stream.counters.lost_writing == 2
