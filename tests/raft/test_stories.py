"""One story a file: what servers say to each other, word for word. `pytest --rewrite` tells them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum.testing.raft_script import performed

STORIES = sorted((Path(__file__).parent.parent / "scenarios" / "raft").glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path, rewrite: bool) -> None:
    script = path.read_text()
    told = performed(script)
    if rewrite:
        path.write_text(told)
    assert told == script or rewrite
    assert performed(told) == told, "a story told twice is the same"
