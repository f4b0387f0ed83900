"""`adsum leave` ends when the agent has: whoever starts it again next finds its data folder free."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from adsum.cli import leave
from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
WAIT_S = 10.0


class Leaver:
    """An agent that leaves: whoever comes while it ends is let in, and heard by nobody."""

    def __init__(self, listener: socket.socket, answer: bytes) -> None:
        self.listener = listener
        self.answer = answer
        self.saw: list[str] = []

    def run(self) -> None:
        self.listener.settimeout(WAIT_S)
        client, _ = self.listener.accept()
        with client:
            self.saw.append(client.recv(4096).split(b" HTTP")[0].decode())
            if self.answer:
                client.sendall(self.answer)
        watcher, _ = self.listener.accept()
        with watcher:
            self.saw.append("somebody watches")
            self.listener.close()
            self.saw.append("gone")


@contextmanager
def leaver(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> Iterator[Leaver]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("CONSUL_HTTP_ADDR", f"127.0.0.1:{listener.getsockname()[1]}")
        leaver = Leaver(listener, answer)
        thread = Thread(target=leaver.run)
        thread.start()
        try:
            yield leaver
        finally:
            thread.join()


@pytest.mark.parametrize("answer", [ANSWER, b""], ids=["answered", "broken off"])
def test_leave_returns_when_nobody_listens_any_more_whatever_became_of_its_connection(
    adsum: Adsum, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    with leaver(monkeypatch, answer) as agent:
        assert adsum("leave") == (0, "Graceful leave complete\n", "")
        assert agent.saw == ["PUT /v1/agent/leave", "somebody watches", "gone"]


def test_an_agent_that_has_left_and_still_answers_is_said(
    adsum: Adsum, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy answers, or whoever started it again at once."""
    monkeypatch.setattr(leave, "GONE_S_MAX", 0.1)
    agent.answers["PUT /v1/agent/leave"] = (200, "")
    told = leave.STILL_THERE.format(agent.address)
    assert adsum("leave") == (0, "Graceful leave complete\n", f"{told}\n")


def test_a_leave_that_is_refused_or_reaches_nobody_fails(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/agent/leave"] = (403, "no")
    assert adsum("leave") == (1, "", "adsum: no\n")
    assert adsum("leave", "-http-addr=127.0.0.1:1").status == 4


def test_a_connection_that_breaks_while_the_agent_stays_is_an_error(
    adsum: Adsum, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leave, "GONE_S_MAX", 0.1)
    with leaver(monkeypatch, b"") as agent, socket.socket(fileno=agent.listener.dup().detach()):
        status, out, err = adsum("leave")
    assert (status, out) == (4, "")
    assert "does not speak HTTP" in err
