"""`adsum("members", "-wan")` calls the command line in this process, towards a fake agent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from adsum.cli.main import main
from tests.cli.fake_agent import FakeAgent, fake_agent


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


Adsum = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("CONSUL_", "ADSUM_HTTP", "ADSUM_CA", "ADSUM_CLIENT", "ADSUM_TLS")):
            monkeypatch.delenv(name)


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAgent]:
    with fake_agent() as fake:
        monkeypatch.setenv("CONSUL_HTTP_ADDR", fake.address)
        yield fake


@pytest.fixture
def adsum(capsys: pytest.CaptureFixture[str]) -> Adsum:
    def call(*words: str) -> Outcome:
        status = main(words)
        return Outcome(status, *capsys.readouterr())

    return call
