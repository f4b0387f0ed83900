from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest


def test_toml_and_json_examples_say_the_same(root: Path) -> None:
    examples = root / "deploy/examples"
    assert tomllib.loads((examples / "agent.toml").read_text()) == json.loads(
        (examples / "agent.json").read_text()
    )


@pytest.mark.parametrize("name", ["agent.toml", "agent.json"])
def test_example_is_valid_without_a_warning(root: Path, name: str) -> None:
    adsum = Path(sys.executable).parent / "adsum"
    done = subprocess.run(
        [adsum, "validate", root / "deploy/examples" / name], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
