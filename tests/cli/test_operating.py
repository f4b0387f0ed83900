from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from adsum.cli import operating
from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
WAIT_S = 10.0


def test_maintenance_of_the_node_in_consul_s_words(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/agent/maintenance"] = (200, "")
    assert adsum("maint", "-enable", "-reason=a b").out == "Node maintenance is now enabled\n"
    assert adsum("maint", "-disable").out == "Node maintenance is now disabled\n"
    assert [asked.query for asked in agent.asked] == [
        {"enable": "true", "reason": "a b"},
        {"enable": "false"},
    ]


def test_maintenance_of_a_service(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/agent/service/maintenance/x/2"] = (200, "")
    agent.answers["PUT /v1/agent/service/maintenance/zz"] = (404, 'No service registered with ID "zz"')
    assert adsum("maint", "-enable", "-service=x/2").out == 'Service maintenance is now enabled for "x/2"\n'
    assert adsum("maint", "-enable", "-service=zz") == (
        3,
        "",
        'adsum: No service registered with ID "zz"\n',
    )


@pytest.mark.parametrize("words", [["-enable", "-disable"], ["-reason=x"], ["-service=x"]])
def test_maintenance_wants_one_thing(adsum: Adsum, agent: FakeAgent, words: list[str]) -> None:
    assert adsum("maint", *words).status == 2
    assert agent.asked == []


def test_maintenance_is_listed_as_consul_lists_it(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/agent/checks"] = {
        "_node_maintenance": {"CheckID": "_node_maintenance", "Node": "n1", "Notes": "why"},
        "_service_maintenance:x2": {"CheckID": "_service_maintenance:x2", "Node": "n1", "Notes": "because"},
        "disk": {"CheckID": "disk", "Node": "n1", "Notes": ""},
    }
    assert adsum("maint").out == (
        "Node:\n  Name:   n1\n  Reason: why\n\nService:\n  ID:     x2\n  Reason: because\n\n"
    )
    assert json.loads(adsum("maint", "-o=json").out) == [
        {"Kind": "Node", "Name": "n1", "Reason": "why"},
        {"Kind": "Service", "Name": "x2", "Reason": "because"},
    ]


def test_reload_says_what_became_of_it(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/agent/reload"] = {"Applied": ["log.level"], "NeedsRestart": ["ports.http"]}
    assert adsum("reload") == (
        0,
        "Configuration reload triggered\n",
        "Applied: log.level\nChanged, but needs a restart: ports.http\n",
    )


def test_reload_of_real_consul_answers_nothing(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/agent/reload"] = (200, "")
    assert adsum("reload") == (0, "Configuration reload triggered\n", "")


def test_a_refused_reload_shows_every_error(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/agent/reload"] = (500, "Nothing was reloaded:\na.json: no\nb.json: neither")
    assert adsum("reload") == (1, "", "adsum: Nothing was reloaded:\na.json: no\nb.json: neither\n")


def test_join_counts_those_that_were_reached(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/agent/join/a"] = agent.answers["PUT /v1/agent/join/b:1"] = (200, "")
    agent.answers["PUT /v1/agent/join/c"] = (500, "1 error occurred:\n\t* Failed to join c: refused\n\n")
    status, out, err = adsum("join", "-wan", "a", "c", "b:1")
    assert (status, out) == (0, "Successfully joined cluster by contacting 2 nodes.\n")
    assert err.startswith("Error joining address 'c': 1 error occurred:")
    assert agent.asked[0].query == {"wan": "1"}


def test_join_that_reaches_nobody_fails(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/agent/join/c"] = (500, "no")
    assert adsum("join", "c") == (1, "", "Error joining address 'c': no\nFailed to join any nodes.\n")
    assert adsum("join").status == 2


def test_force_leave_is_silent_or_says_what_the_agent_says(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/agent/force-leave/n9"] = (200, "")
    agent.answers["PUT /v1/agent/force-leave/zz"] = (500, "agent: No node found with name 'zz'")
    assert adsum("force-leave", "-prune", "n9") == (0, "", "")
    assert agent.asked[0].query == {"prune": "1"}
    agent.answers["PUT /v1/agent/force-leave/n8"] = (200, "Taken off here.")
    assert adsum("force-leave", "n8") == (0, "Taken off here.\n", "")
    unknown = "adsum: no member has the name zz: `adsum members` lists them\n"
    assert adsum("force-leave", "zz") == (3, "", unknown)
    agent.answers["PUT /v1/agent/force-leave/zz"] = (500, "the agent ends")
    assert adsum("force-leave", "zz") == (1, "", "adsum: the agent ends\n")


def test_info_shows_sections_in_order(adsum: Adsum, agent: FakeAgent) -> None:
    stats = {"runtime": {"os": "linux", "arch": "amd64"}, "agent": {"checks": "0"}}
    agent.answers["GET /v1/agent/self"] = {"Stats": stats}
    assert adsum("info").out == "agent:\n\tchecks = 0\nruntime:\n\tarch = amd64\n\tos = linux\n"
    assert json.loads(adsum("info", "-o=json").out) == stats


def test_monitor_shows_lines_until_the_agent_ends(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/agent/monitor"] = (200, "one\ntwo\n")
    status, out, err = adsum("monitor", "-log-level=debug", "-log-json")
    assert (status, out) == (4, "one\ntwo\n")
    assert "ended the log" in err
    assert agent.asked[0].query == {"loglevel": "debug", "logjson": "1"}


def test_monitor_at_an_unknown_level_is_a_matter_of_usage(adsum: Adsum, agent: FakeAgent) -> None:
    status, _, err = adsum("monitor", "-log-level=bogus")
    assert status == 2
    assert 'the flag -log-level takes trace, debug, info, warn, err, error, not "bogus"' in err
    agent.answers["GET /v1/agent/monitor"] = (200, "one\n")
    assert adsum("monitor", "-log-level=WARN").out == "one\n"


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
    monkeypatch.setattr(operating, "GONE_S_MAX", 0.1)
    agent.answers["PUT /v1/agent/leave"] = (200, "")
    told = operating.STILL_THERE.format(agent.address)
    assert adsum("leave") == (0, "Graceful leave complete\n", f"{told}\n")


def test_a_leave_that_is_refused_or_reaches_nobody_fails(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/agent/leave"] = (403, "no")
    assert adsum("leave") == (1, "", "adsum: no\n")
    assert adsum("leave", "-http-addr=127.0.0.1:1").status == 4


def test_a_connection_that_breaks_while_the_agent_stays_is_an_error(
    adsum: Adsum, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operating, "GONE_S_MAX", 0.1)
    with leaver(monkeypatch, b"") as agent, socket.socket(fileno=agent.listener.dup().detach()):
        status, out, err = adsum("leave")
    assert (status, out) == (4, "")
    assert "does not speak HTTP" in err
