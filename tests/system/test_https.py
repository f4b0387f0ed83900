"""HTTPS of an agent that runs as a process, from the flag to a certificate's renewal."""

from __future__ import annotations

import http.client
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from tests.net.certificates import Folder
from tests.system.agents import Agent, adsum_program, free_ports, running, until, write_config

RELOAD_S_MAX = 5.0
NAME = "server.dc1.consul"


class Https(NamedTuple):
    agent: Agent
    port: int
    certificates: Folder

    def ask(
        self, context: ssl.SSLContext, path: str = "/v1/status/leader", **headers: str
    ) -> tuple[int, bytes]:
        line = context.wrap_socket(socket.create_connection(("127.0.0.1", self.port)), server_hostname=NAME)
        connection = http.client.HTTPConnection("localhost")
        connection.sock = line
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def shown(self) -> bytes | None:
        """The certificate, whoever issued it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(socket.create_connection(("127.0.0.1", self.port))) as line:
            return line.getpeercert(binary_form=True)


@pytest.fixture
def https(tmp_path: Path) -> Iterator[Https]:
    certificates, port = Folder(tmp_path / "tls", trustme.CA(), NAME, "127.0.0.1"), free_ports().server
    config = {**certificates.keys, "verify_incoming_https": True, "log_level": "INFO"}
    with running(adsum_program(), config, ("-dev", "-https-port", str(port))) as agent:
        yield Https(agent, port, certificates)


def test_who_shows_a_certificate_is_answered_as_over_http(https: Https) -> None:
    leader = https.agent.call("GET", "/v1/status/leader")
    assert leader[0] == 200
    assert https.ask(https.certificates.client()) == leader
    with pytest.raises((ssl.SSLError, ConnectionError)):
        https.ask(https.certificates.stranger())
    assert until(lambda: "peer did not return a certificate" in https.agent.log(), within_s=RELOAD_S_MAX)
    assert "Traceback" not in https.agent.log()


def test_browsers_are_held_back_as_over_http(https: Https) -> None:
    status, body = https.ask(https.certificates.client(), Origin="https://evil.example")
    assert (status, b"may not use this API" in body) == (403, True)
    assert https.ask(https.certificates.client(), Host="evil.example")[0] == 403


def test_unmodified_command_lines_work(https: Https) -> None:
    folder = https.certificates
    done = subprocess.run(
        [
            *adsum_program().command,
            "members",
            f"-http-addr=https://127.0.0.1:{https.port}",
            f"-ca-file={folder.ca_file}",
            f"-client-cert={folder.cert_file}",
            f"-client-key={folder.key_file}",
        ],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "alive" in done.stdout


def test_a_hangup_renews_the_certificate_and_a_bad_one_changes_nothing(https: Https) -> None:
    first = https.shown()
    https.certificates.issue(NAME)
    https.agent.send(signal.SIGHUP)
    assert until(lambda: https.shown() != first, within_s=RELOAD_S_MAX)
    second = https.shown()
    metrics = https.agent.call("GET", "/metrics")[1]
    assert b"\nadsum_tls_certificate_end_seconds " in metrics
    assert b"\nadsum_tls_certificate_end_seconds 0" not in metrics
    Path(https.certificates.cert_file).write_text("rubbish")
    https.agent.send(signal.SIGHUP)
    sentence = f"cert_file: {https.certificates.cert_file} holds no certificate"
    assert until(lambda: sentence in https.agent.log(), within_s=RELOAD_S_MAX)
    status, body = https.agent.put("/v1/agent/reload")
    assert (status, sentence in body.decode()) == (500, True)
    assert https.shown() == second


def test_a_reload_changes_who_must_show_a_certificate(https: Https) -> None:
    config = {**https.agent.config, "verify_incoming_https": False}
    write_config(https.agent.folder, https.agent.ports, config)
    status, _ = https.agent.put("/v1/agent/reload")
    assert status == 200
    assert https.ask(https.certificates.stranger())[0] == 200


def test_without_a_certificate_the_agent_starts_says_so_and_serves_no_https() -> None:
    port = free_ports().server
    with running(adsum_program(), {}, ("-dev", "-https-port", str(port))) as agent:
        assert agent.call("GET", "/v1/status/leader")[0] == 200
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        assert f"ports.https is {port}, but an agent that starts without cert_file" in agent.log()
        assert "HTTPS:" not in agent.log()


def test_a_start_with_bad_files_names_each() -> None:
    done = subprocess.run(
        [
            *adsum_program().command,
            "agent",
            "-dev",
            "-https-port=1",
            "-hcl",
            'cert_file = "/c" key_file = "/k"',
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "cert_file: /c cannot be read: No such file or directory" in done.stderr
    assert "key_file: /k cannot be read: No such file or directory" in done.stderr
