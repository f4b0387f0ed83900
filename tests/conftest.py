"""Fixtures every room may use."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def debian_tool() -> Callable[[str], str]:
    """`debian_tool("dnsmasq")` is its path; where it is missing the test is skipped, naming the package."""

    def path_or_skip(program: str) -> str:
        command = [sys.executable, str(ROOT / "tools" / "debian_tool.py"), program]
        found = subprocess.run(command, capture_output=True, text=True)
        if found.returncode != 0:
            pytest.skip(found.stderr.strip().splitlines()[-1])
        return found.stdout.strip()

    return path_or_skip
