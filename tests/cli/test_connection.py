from __future__ import annotations

import socket
import socketserver
from pathlib import Path
from threading import Event

import pytest

from adsum.cli import connection
from tests.cli.conftest import Adsum
from tests.cli.fake_agent import Asked, FakeAgent, fake_agent, serving

MEMBERS = "GET /v1/agent/members"


def test_nobody_at_the_address_is_exit_status_4_and_says_what_to_do(adsum: Adsum) -> None:
    with socket.socket() as unheard:  # bound, so that nobody else is there, and not listening
        unheard.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        status, out, err = adsum("members", f"-http-addr={address}")
    assert (status, out) == (4, "")
    assert err == (
        f"adsum: cannot reach the agent at {address} (connection refused): is it running? "
        "Try `adsum agent -dev`, or name another with -http-addr\n"
    )


def test_a_unix_socket_is_an_address(adsum: Adsum, tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    assert adsum("members", f"-http-addr=unix://{path}").status == 4
    with fake_agent(unix_path=str(path)) as agent:
        agent.answers["GET /v1/catalog/datacenters"] = ["dc1"]
        assert adsum("catalog", "datacenters", f"-http-addr={agent.address}") == (0, "dc1\n", "")
    assert agent.asked[0].headers["host"] == "localhost"


def test_the_flag_wins_over_our_variable_and_ours_over_consul_s(
    adsum: Adsum, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.answers["GET /v1/catalog/datacenters"] = ["dc1"]
    monkeypatch.setenv("CONSUL_HTTP_ADDR", "127.0.0.1:1")
    monkeypatch.setenv("ADSUM_HTTP_ADDR", agent.address)
    assert adsum("catalog", "datacenters").status == 0
    monkeypatch.setenv("ADSUM_HTTP_ADDR", "127.0.0.1:1")
    assert adsum("catalog", "datacenters", "-http-addr", f"http://{agent.address}/").status == 0
    assert adsum("catalog", "datacenters").status == 4


def test_a_proxy_s_prefix_comes_before_every_path(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /consul/v1/catalog/datacenters"] = ["dc1"]
    assert adsum("catalog", "datacenters", f"-http-addr=http://{agent.address}/consul/").status == 0


def test_a_port_alone_is_this_host_s(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/catalog/datacenters"] = ["dc1"]
    port = agent.address.rpartition(":")[2]
    assert adsum("catalog", "datacenters", f"-http-addr=:{port}").status == 0


@pytest.mark.parametrize("address", ["ftp://h:1", "http://", "h:port", "h:99999", "a b:1", "http://[::1"])
def test_an_address_that_is_none_is_a_matter_of_usage(adsum: Adsum, address: str) -> None:
    status, _, err = adsum("members", "-http-addr", address)
    assert status == 2
    assert f'-http-addr must be host:port, http(s)://host:port or unix://path, not "{address}"' in err


def test_a_token_file_that_cannot_be_read_is_named_with_the_reason(adsum: Adsum) -> None:
    err = adsum("members", "-token-file=/nosuch").err
    assert "the token file /nosuch cannot be read: No such file or directory\n" in err


def test_the_token_comes_from_flag_variable_or_file(
    adsum: Adsum, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    agent.answers["GET /v1/catalog/datacenters"] = ["dc1"]
    adsum("catalog", "datacenters", f"-token-file={file}")
    monkeypatch.setenv("CONSUL_HTTP_TOKEN", "from-variable")
    adsum("catalog", "datacenters", f"-token-file={file}")
    adsum("catalog", "datacenters", "-token=from-flag")
    tokens = [asked.headers["x-consul-token"] for asked in agent.asked]
    assert tokens == ["from-file", "from-variable", "from-flag"]


def test_a_token_cannot_smuggle_a_header(adsum: Adsum, agent: FakeAgent) -> None:
    status, _, err = adsum("members", "-token=a\r\nX: y")
    assert status == 2
    assert "no header can carry" in err
    assert agent.asked == []


def test_a_token_file_that_is_not_there_is_a_matter_of_usage(adsum: Adsum, agent: FakeAgent) -> None:
    assert adsum("members", "-token-file=/nonexistent/token").status == 2


def test_credentials_for_a_proxy_are_sent(
    adsum: Adsum, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONSUL_HTTP_AUTH", "user:pass")
    agent.answers["GET /v1/catalog/datacenters"] = ["dc1"]
    adsum("catalog", "datacenters")
    assert agent.asked[0].headers["authorization"] == "Basic dXNlcjpwYXNz"


@pytest.mark.parametrize("path", ["/v1/agent/members"])
def test_a_server_that_is_no_agent_is_told_apart(adsum: Adsum, agent: FakeAgent, path: str) -> None:
    for answer in ((200, "<html>"), {"not": "a list"}):
        agent.answers[f"GET {path}"] = answer
        status, _, err = adsum("members")
        assert status == 4
        assert err.startswith(f"adsum: what listens at {agent.address} ")


def test_what_does_not_speak_http_is_told_apart(adsum: Adsum) -> None:
    class Shouts(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(b"220 mail ready\r\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Shouts) as server, serving(server):
        status, _, err = adsum("members", f"-http-addr=127.0.0.1:{server.server_address[1]}")
    assert status == 4
    assert "does not speak HTTP" in err


@pytest.mark.parametrize(("command", "body"), [("timeline", b'{"Entries": []}'), ("members", b"[]")])
def test_an_agent_that_ends_while_it_is_watched_is_told_apart_from_what_speaks_no_http(
    adsum: Adsum, monkeypatch: pytest.MonkeyPatch, command: str, body: bytes
) -> None:
    class AnswersOnce(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            self.request.recv(4096)

    monkeypatch.setattr("adsum.cli.members.time.sleep", lambda _duration_s: None)
    with socketserver.TCPServer(("127.0.0.1", 0), AnswersOnce) as server, serving(server):
        address = f"127.0.0.1:{server.server_address[1]}"
        status, _, err = adsum(command, "-watch", f"-http-addr={address}")
    assert status == 4
    assert (
        err == f"adsum: the agent at {address} has ended, or broke the connection: ask again once it runs\n"
    )


def test_a_refusal_is_the_agent_s_own_sentence(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers[MEMBERS] = (500, "No cluster leader")
    assert adsum("members") == (1, "", "adsum: No cluster leader\n")
    agent.answers[MEMBERS] = (403, "")
    assert "the agent answered 403 Forbidden to GET /v1/agent/members" in adsum("members").err


def test_a_value_that_the_agent_cannot_read_is_a_matter_of_usage(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/catalog/nodes"] = (400, "the filter ends too soon")
    assert adsum("catalog", "nodes", "-filter=(") == (
        2,
        "",
        "adsum: catalog nodes: the filter ends too soon\nTry `adsum catalog nodes -h`.\n",
    )


def test_a_refusal_cannot_steer_the_terminal(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers[MEMBERS] = (500, "\x1b[2Jgone\nnext")
    assert adsum("members").err == "adsum: \\x1b[2Jgone\nnext\n"


def test_an_answer_without_end_is_not_read_to_its_end(
    adsum: Adsum, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_BYTES_MAX", 100)
    agent.answers[MEMBERS] = ["x" * 200]
    status, _, err = adsum("members")
    assert status == 1
    assert "longer than 100 bytes" in err


def test_an_agent_that_hangs_is_given_up(adsum: Adsum, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_S_MAX", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        status, _, err = adsum("members", f"-http-addr=127.0.0.1:{silent.getsockname()[1]}")
    assert status == 4
    assert "did not answer within" in err


def test_after_an_answer_that_did_not_come_the_next_one_does(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a connection of its own: the one that waits for the first may wait for ever."""
    monkeypatch.setattr(connection, "ANSWER_S_MAX", 0.2)
    agent.answers["GET /fast"] = "here"
    is_over, answer = Event(), agent.answer

    def slow(asked: Asked) -> tuple[int, bytes]:
        if asked.line == "GET /slow":
            is_over.wait(10)
        return answer(asked)

    monkeypatch.setattr(agent, "answer", slow)
    target = connection.Target(
        agent.address, "127.0.0.1", int(agent.address.rpartition(":")[2]), "", "", False
    )
    address = target.host, target.port
    with connection.Api(target, {}, lambda: socket.create_connection(address, 0.2)) as api:
        with pytest.raises(connection.AgentUnreachable, match="did not answer"):
            api.send("GET", "/slow")
        assert api.send("GET", "/fast") == b'"here"'
    is_over.set()


def test_plain_http_where_tls_was_said_is_told_apart(adsum: Adsum, agent: FakeAgent) -> None:
    status, _, err = adsum("members", f"-http-addr=https://{agent.address}")
    assert status == 4
    assert "no TLS with what listens" in err
