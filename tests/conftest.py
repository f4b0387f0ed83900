"""Fixtures every room may use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write expected traces of stories anew; then read the diff",
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def debian_tool() -> Callable[[str], str]:
    """`debian_tool("dnsmasq")` is its path; where it is missing the test is skipped, naming the package."""
    has_failed: list[str] = []

    @cache
    def find(program: str) -> subprocess.CompletedProcess[str]:
        # A machine that could not install one package is not asked to try the next: it has no network.
        environment = os.environ | ({"CI": "", "ADSUM_INSTALL": ""} if has_failed else {})
        command = [sys.executable, str(ROOT / "tools" / "debian_tool.py"), program]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    def path_or_skip(program: str) -> str:
        found = find(program)
        if found.returncode != 0:
            has_failed.append(program)
            pytest.skip(found.stderr.strip().splitlines()[-1])
        return found.stdout.strip()

    return path_or_skip
