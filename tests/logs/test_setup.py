from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from adsum.logs import setup
from adsum.logs.lines import UnknownLevel
from adsum.logs.settings import LogSettings
from tests.logs.support import log, logging_to


def set_aside(folder: Path) -> list[Path]:
    return sorted(folder.glob("agent-*.log"))


def test_lines_go_to_standard_output_and_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(LogSettings(level="warn", file=str(tmp_path / "new" / "agent.log"))):
        log.info("too quiet")
        log.warning("heard")
    written = (tmp_path / "new" / "agent.log").read_text()
    assert written == capsys.readouterr().out
    assert written.endswith("[WARN]  agent: heard\n")
    assert "too quiet" not in written


def test_json_is_written_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(LogSettings(is_json=True)):
        log.error("broken")
    assert json.loads(capsys.readouterr().out)["@level"] == "error"


def test_unknown_facilities_and_levels_are_refused() -> None:
    with pytest.raises(setup.CannotLog, match="syslog_facility NEWS9 is not one of syslog's"):
        setup.start(LogSettings(has_syslog=True, syslog_facility="NEWS9"))
    with pytest.raises(UnknownLevel):
        setup.start(replace(LogSettings(), level="loud"))


def test_talkative_libraries_stay_quiet_when_somebody_follows_at_debug() -> None:
    with logging_to(LogSettings(level="debug")):
        assert not logging.getLogger("hpack.hpack").isEnabledFor(logging.INFO)
