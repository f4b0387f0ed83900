"""`make` is the only entrance: the targets people are told of exist and say what they did."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import environment, run_stages

from tests.house.rooms import ROOT

TARGET = re.compile(r"^([a-z-]+):.*$", re.MULTILINE)
# Their last line comes from the program they start, whose own tests look at it.
SPEAK_FOR_THEMSELVES = {"run", "test", "conformance", "bench", "bench-membership", "bench-raft"}


def makefile_recipes() -> dict[str, str]:
    """Target to the commands below it."""
    parts = TARGET.split((ROOT / "Makefile").read_text())[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_entrance_is_a_phony_target() -> None:
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == set(makefile_recipes())


@pytest.mark.parametrize("target", sorted(makefile_recipes()))
def test_target_shows_its_result_and_not_its_commands(target: str) -> None:
    commands = [line for line in makefile_recipes()[target].splitlines() if line.startswith("\t")]
    assert commands
    assert all(command.startswith("\t@") for command in commands)
    if target not in SPEAK_FOR_THEMSELVES | {"environment"}:
        assert "echo" in commands[-1]


def test_what_make_test_leaves_out_is_there_and_the_first_hour_is_not_among_it() -> None:
    left = {ROOT / path for path in run_stages.LEFT_TO_SYSTEM}
    assert [path for path in left if not path.exists()] == []
    kept = {path.stem for path in (ROOT / "tests/system").glob("test_*.py") if path not in left}
    assert {"test_first_hour", "test_restart", "test_signals", "test_bad_input"} <= kept


def test_ci_runs_what_developers_run() -> None:
    assert (ROOT / ".ci/run").read_text().rstrip().endswith("make test")
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_sources_are_compiled_where_imports_write_no_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent/good.py").write_text("GOOD = True\n")
    (tmp_path / "agent/half_done.py").write_text("def half(")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    environment.compile_sources()
    compiled = (tmp_path / "agent/__pycache__").iterdir()
    assert [path.name.split(".")[0] for path in compiled] == ["good"]


def test_closing_line_of_a_good_run_counts_the_tests() -> None:
    verdicts = [run_stages.Verdict(name, True, "") for name in ("lint", "types", "tests")]
    assert (
        run_stages.closing_line(verdicts, "312 passed, 3 skipped in 41.20s", 44.4)
        == "All passed: lint, types, tests. Tests: 312 passed, 3 skipped in 41.20s; everything in 44 s."
    )


def test_closing_line_of_a_bad_run_names_what_failed_and_what_to_do() -> None:
    verdicts = [run_stages.Verdict("format", False, "make format"), run_stages.Verdict("tests", True, "")]
    assert (
        run_stages.closing_line(verdicts, "1 passed in 0.10s", 2)
        == "FAILED: format (make format); passed: tests. Tests: 1 passed in 0.10s; everything in 2 s."
    )


def test_a_failing_stage_keeps_its_words() -> None:
    stage = run_stages.Stage("lint", ["python", "-c", "import sys; sys.exit('line 3 is odd')"], "look")
    assert run_stages.run_stage(stage) == run_stages.Verdict("lint", False, "look", "line 3 is odd")


def test_a_missing_debian_program_is_named_with_its_package(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools/debian_tool.py"), "dnsperf"]
    nowhere = {"PATH": str(tmp_path), "CI": "false"}
    program = (
        "import runpy, shutil, sys\nshutil.which = lambda *a, **k: None\n"
        f"sys.argv = {command[1:]!r}\nrunpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], env=nowhere, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "dnsperf is missing: apt-get install dnsperf\n")
