"""Lint, layout, types and tests: all of them even when one fails, and one line at the end to read.

    tools/test                  everything
    tools/test tests/dns        the same, with pytest's share narrowed by its own arguments

mypy runs beside pytest: each keeps one core busy, so on two cores the run takes as long as the slower of
them. pytest writes straight to the terminal; what the others found is printed after it, so that it is not
lost above, and only if they found something.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
# What takes long, or wants the machine to itself, is left to `make system`. What every agent must do as a
# process (start, serve, survive `kill -9`, end in order) takes half a minute and is part of every run.
LEFT_TO_SYSTEM = [
    "tests/system/test_absence.py",
    "tests/system/test_abuse.py",
    "tests/system/test_catalog_cluster.py",
    "tests/system/test_client_keys.py",
    "tests/system/test_clocks.py",
    "tests/system/test_cluster_forms.py",
    "tests/system/test_cluster_keys.py",
    "tests/system/test_cluster_network.py",
    "tests/system/test_consul_binary.py",
    "tests/system/test_external_nodes.py",
    "tests/system/test_few_files.py",
    "tests/system/test_fresh_clone.py",
    "tests/system/test_hosts_reborn.py",
    "tests/system/test_http_page.py",
    "tests/system/test_locks.py",
    "tests/system/test_patroni.py",
    "tests/system/test_readme.py",
    "tests/system/test_resolvers.py",
    "tests/system/test_servers_change.py",
    "tests/system/test_servers_lost.py",
    "tests/system/test_servers_move.py",
    "tests/system/test_sessions.py",
    "tests/system/test_storm.py",
    "tests/system/test_systemd.py",
]
PYTEST = [
    str(BIN / "pytest"),
    *("-q", "-r", "s", "--durations=5", "--durations-min=1"),
    *(f"--ignore={path}" for path in LEFT_TO_SYSTEM),
]
PYTEST_CLOSING_LINE = re.compile(r"(\d+ [a-z]+(, )?)+ in [\d.]+s")


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    command: list[str]
    remedy: str


STAGES = [
    Stage(
        "lint", ["ruff", "check", "--quiet", "--output-format=concise", "."], "`make format` mends some of it"
    ),
    Stage("format", ["ruff", "format", "--check", "--quiet", "."], "`make format` mends it"),
    Stage("types", ["mypy", "--no-error-summary"], "listed above"),
]


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    is_good: bool
    remedy: str
    output: str = ""


def main(pytest_arguments: list[str]) -> int:
    started = time.monotonic()
    os.chdir(ROOT)
    with ThreadPoolExecutor(max_workers=1) as beside:
        stages = [beside.submit(run_stage, stage) for stage in STAGES]
        tests, pytest_summary = run_tests(pytest_arguments)
        verdicts = [*(stage.result() for stage in stages), tests]
    for verdict in verdicts:
        if verdict.output and not verdict.is_good:
            print(f"--- {verdict.name} ---\n{verdict.output}", flush=True)
    print(closing_line(verdicts, pytest_summary, time.monotonic() - started), flush=True)
    return 0 if all(verdict.is_good for verdict in verdicts) else 1


def run_stage(stage: Stage) -> Verdict:
    command = [str(BIN / stage.command[0]), *stage.command[1:]]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return Verdict(stage.name, done.returncode == 0, stage.remedy, done.stdout.strip())


def run_tests(arguments: list[str]) -> tuple[Verdict, str]:
    """With pytest's own closing line, which says how many passed and how many were skipped."""
    summary = ""
    with subprocess.Popen([*PYTEST, *arguments], stdout=subprocess.PIPE, text=True) as pytest:
        assert pytest.stdout is not None  # it is piped, just above
        for line in pytest.stdout:
            print(line, end="", flush=True)
            if found := PYTEST_CLOSING_LINE.search(line):
                summary = found.group()
    if not summary:
        summary = f"pytest ended with status {pytest.returncode}"
    return Verdict("tests", pytest.returncode == 0, "listed above"), summary


def closing_line(verdicts: list[Verdict], pytest_summary: str, duration_s: float) -> str:
    good = ", ".join(verdict.name for verdict in verdicts if verdict.is_good) or "nothing"
    bad = ", ".join(f"{verdict.name} ({verdict.remedy})" for verdict in verdicts if not verdict.is_good)
    outcome = f"FAILED: {bad}; passed: {good}" if bad else f"All passed: {good}"
    return f"{outcome}. Tests: {pytest_summary}; everything in {duration_s:.0f} s."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
