"""The README's tour, as a newcomer types it: each command is run and must show what the page shows.

In a block marked `console`, `$ ` starts a command, `> ` continues it, and what follows is its output;
`<words>` in an output stand for something that differs from host to host. Only the ports are replaced, so
that the test does not need 8500. The page tells the reader to look after a moment; here the looking is
repeated until the output is right.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.system.agents import Agent, adsum_program, free_ports, running, until

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*(?:\n> .*)*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
DONE = "--- done ---"


@dataclass(frozen=True, slots=True)
class Step:
    command: str
    expected: str

    def is_satisfied_by(self, output: str) -> bool:
        pattern = re.sub(r"<[\w\\-]+>", ".+", re.escape(self.expected.strip()))
        return re.fullmatch(pattern, output.strip()) is not None


def steps(page: str) -> list[Step]:
    found = [match for block in BLOCK.findall(page) for match in COMMAND.findall(block)]
    return [Step(command.replace("\n> ", "\n"), expected) for command, expected in found]


class Shell:
    """One bash for the whole tour: the page starts and stops a job in it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def run(self, command: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(f"{command}\necho; echo '{DONE}'", file=self.process.stdin, flush=True)
        lines = iter(self.process.stdout.readline, "")
        return "".join(line for line in iter(lambda: next(lines), DONE + "\n"))


@pytest.fixture
def shell(root: Path, agent: Agent) -> Iterator[Shell]:
    """Where the page is read, and with an agent that is not at the usual port."""
    environment = os.environ | {"CONSUL_HTTP_ADDR": f"127.0.0.1:{agent.ports.http}"}
    with subprocess.Popen(
        ["bash"],
        cwd=root,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield Shell(process)
        finally:
            process.communicate("kill $(jobs -p)\nexit\n", timeout=10)


@pytest.fixture
def agent() -> Iterator[Agent]:
    with running(adsum_program()) as agent:
        yield agent


def test_the_tour_shows_what_the_page_says(
    root: Path, agent: Agent, shell: Shell, debian_tool: Callable[[str], str]
) -> None:
    for program in ("curl", "dig"):
        debian_tool(program)
    web_port = free_ports().http
    page = (root / "README.md").read_text()
    for shown, here in (("8500", agent.ports.http), ("8600", agent.ports.dns), ("8080", web_port)):
        page = page.replace(shown, str(here))
    tour = steps(page)
    assert len(tour) >= 10
    for step in tour:
        seen: list[str] = []
        is_shown = until(partial(shows, shell, step, seen), within_s=10)
        assert is_shown, f"{step.command}\nsaid {seen[-1]!r}, the page {step.expected!r}"


def shows(shell: Shell, step: Step, seen: list[str]) -> bool:
    seen.append(shell.run(step.command))
    return step.is_satisfied_by(seen[-1])
