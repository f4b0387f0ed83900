"""The figures of what was sent, in a line after the tests: how near the limits it came."""

from __future__ import annotations

import pytest

from tests.fuzz.figures import Figures

FIGURES = pytest.StashKey[list[tuple[str, Figures]]]()


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """Shown at the end of the run, under the name of the test."""
    fresh = Figures()
    request.config.stash.setdefault(FIGURES, []).append((request.node.name, fresh))
    return fresh


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for name, shown in config.stash.get(FIGURES, []):
        terminalreporter.write_line(f"fuzz, {name}: {shown}")
