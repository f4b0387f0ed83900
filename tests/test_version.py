from __future__ import annotations

from importlib.metadata import version

from adsum.version import ADSUM_VERSION


def test_what_the_agent_says_is_what_was_installed() -> None:
    assert version("adsum") == ADSUM_VERSION
