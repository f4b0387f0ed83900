from __future__ import annotations

from pathlib import Path

import pytest

from adsum.now import Now
from adsum.process import crashes
from adsum.process.generation import next_generation
from adsum.storage.disk import OsDisk
from adsum.storage.reading import read_if_readable


def test_a_file_that_cannot_be_read_any_more_is_set_aside_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder in its place stands for a bad sector, which no test can make."""
    (tmp_path / "peers").mkdir()
    disk = OsDisk(tmp_path)
    assert read_if_readable(disk, "peers") is None
    assert read_if_readable(disk, "peers") is None
    assert [each.name for each in tmp_path.iterdir()] == ["peers.damaged"]
    (line,) = caplog.messages
    assert line.startswith(
        f"a saved file is damaged (Is a directory); it was set aside as {tmp_path}/peers.dam"
    )


def test_neither_its_starts_nor_its_last_generation_keep_an_agent_from_starting(tmp_path: Path) -> None:
    for name in ("starts", "generation"):
        (tmp_path / name).mkdir()
    disk = OsDisk(tmp_path)
    crashes.begin(disk, 5, ())
    assert next_generation(disk, Now(0, 7)) == 7
