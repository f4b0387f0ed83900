from __future__ import annotations

from pathlib import Path

import pytest

from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.health_checks.attempt import Counters, Options, Surroundings
from adsum.health_checks.os_service import OsServiceAttempt
from adsum.health_checks.runner import CheckResult


@pytest.fixture
def systemctl(tmp_path: Path) -> Path:
    """Answers as the real one does, and only to the question that we ask."""
    program = tmp_path / "systemctl"
    program.write_text(
        '#!/bin/sh\n[ "$1 $2" = "is-active --" ] || exit 9\n'
        'case "$3" in nginx) echo active;; old) echo failed; exit 3;; *) echo inactive; exit 4;; esac\n'
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nginx", CheckResult(CheckStatus.PASSING, 'Service "nginx" is healthy')),
        ("old", CheckResult(CheckStatus.CRITICAL, 'Service "old" is not running: failed')),
        ("--help", CheckResult(CheckStatus.CRITICAL, 'Service "--help" is not running: inactive')),
    ],
)
async def test_active_service_is_healthy_and_any_other_critical(
    systemctl: Path, name: str, expected: CheckResult
) -> None:
    surroundings = Surroundings(Options(), Counters())
    attempt = OsServiceAttempt(CheckDefinition(os_service=name), surroundings, systemctl=str(systemctl))
    assert await attempt.run() == expected
