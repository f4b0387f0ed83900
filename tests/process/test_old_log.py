from __future__ import annotations

import logging
from pathlib import Path

import pytest

from adsum.process.old_log import set_old_log_aside


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def server_before(folder: Path, content: str) -> None:
    (folder / "raft").mkdir()
    (folder / "raft" / "1.segment").write_text(content)


def test_the_log_of_a_former_server_is_set_aside_each_time_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for content in ("first", "second"):
        server_before(tmp_path, content)
        set_old_log_aside(str(tmp_path))
    assert names(tmp_path) == ["raft.old-1", "raft.old-2"]
    assert (tmp_path / "raft.old-2" / "1.segment").read_text() == "second"
    assert [each.levelname for each in caplog.records] == ["WARNING", "WARNING"]
    assert f"was set aside as {tmp_path / 'raft.old-1'}" in caplog.messages[0]


def test_an_agent_that_never_was_a_server_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        set_old_log_aside(str(tmp_path))
        (tmp_path / "raft").mkdir()
        set_old_log_aside(str(tmp_path))
    assert names(tmp_path) == ["raft"]
    assert caplog.records == []
