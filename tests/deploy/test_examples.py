from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest


@pytest.fixture
def examples(root: Path) -> Path:
    return root / "deploy/examples"


def test_toml_and_json_examples_say_the_same(examples: Path) -> None:
    toml, json_ = (examples / "agent.toml").read_text(), (examples / "agent.json").read_text()
    assert tomllib.loads(toml) == json.loads(json_)


@pytest.mark.parametrize("name", ["agent.toml", "agent.json"])
def test_example_is_valid_without_a_warning(examples: Path, name: str) -> None:
    command = [str(Path(sys.executable).parent / "adsum"), "validate", str(examples / name)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
