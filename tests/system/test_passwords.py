"""Passwords and headers that checks are registered with stay with the agent that runs them."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.system.agents import adsum_program, until
from tests.system.clusters import Cluster, Member, emptied, joining, loopbacks

PASSWORD, HEADER = "hunter2", "s3cret"
USER = f"user:{PASSWORD}"
TALKATIVE = {"log_level": "TRACE", "check_update_interval": "0s"}
# The base64 of `user:hunter2`, as the request of a check carries it, is as good as the password.
SECRETS = (PASSWORD, HEADER, "dXNlcjpodW50ZXIy")
CHECKED_S_MAX = 30.0
ASKED = (
    "/v1/agent/checks",
    "/v1/agent/services",
    "/v1/agent/service/web",
    "/v1/agent/health/service/name/web",
    "/v1/agent/self",
    "/v1/health/node/m00",
    "/v1/health/node/m00?output=full",
    "/v1/health/checks/web",
    "/v1/health/service/web",
    "/v1/health/state/any",
    "/v1/catalog/node/m00",
    "/v1/catalog/service/web",
    "/v1/membership",
    "/metrics",
)
COMMANDS = (
    ("info",),
    ("members", "-detailed"),
    ("health",),
    ("services", "list"),
    ("catalog", "services"),
    ("explain", "m00"),
)


class Target(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        code = {"/moved": 302, "/fault": 500, "/busy": 429}.get(self.path, 200)
        self.send_response(code)
        if code == 302:
            self.send_header("Location", f"http://user:{PASSWORD}@127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None: ...


@contextmanager
def target() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Target) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One agent that runs checks, one of which is from its configuration, and one that hears of them."""
    silent, one, other = loopbacks(3)
    with (
        target() as port,
        socket.create_server(("127.0.0.1", silent.ports.http)),  # it never accepts
        emptied(Cluster(adsum_program())) as made,
    ):
        filed = {"checks": [definition("filed", {"HTTP": f"http://{USER}@127.0.0.1:{port}/"})]}
        made.add(one, {"server": True, "bootstrap": True, **TALKATIVE, **filed})
        made.add(other, {**joining(one), **TALKATIVE})
        made.wait_for_one_view()
        assert made.members[0].put("/v1/agent/service/register", {"Name": "web"})[0] == 200
        for name, kind in targets(port, silent.ports.http).items():
            check = {"ServiceID": "web", **definition(name, kind)}
            assert made.members[0].put("/v1/agent/check/register", check) == (200, b"")
        yield made


def definition(name: str, kind: dict[str, object]) -> dict[str, object]:
    header = {"Authorization": [f"Bearer {HEADER}"]}
    return {"ID": name, "Name": name, "Interval": "1s", "Header": header, **kind}


def targets(port: int, silent: int) -> dict[str, dict[str, object]]:
    """One for each way to fail, and one that passes."""
    at = f"{USER}@127.0.0.1"
    return {
        "passing": {"HTTP": f"http://{at}:{port}/"},
        "busy": {"HTTP": f"http://{at}:{port}/busy"},
        "fault": {"HTTP": f"http://{at}:{port}/fault"},
        "moved": {"HTTP": f"http://{at}:{port}/moved"},
        "refused": {"HTTP": f"http://{at}:1/"},
        "silent": {"HTTP": f"http://{at}:{silent}/", "Timeout": "100ms"},
        "no-tls": {"HTTP": f"https://{at}:{port}/"},
        "no-port": {"HTTP": f"http://{at}:nowhere/"},
        "no-scheme": {"HTTP": f"{at}:{port}/"},
        "bad-header": {"HTTP": f"http://{at}:{port}/", "Header": {"X-Key": [f"{HEADER}\n{HEADER}"]}},
        "tcp": {"TCP": f"{at}:{port}"},
        "tcp-no-port": {"TCP": at},
        "udp": {"UDP": f"{at}:{port}"},
        "grpc": {"GRPC": f"{at}:{port}/my.service"},
        "h2ping": {"H2PING": f"{at}:{port}"},
    }


def test_no_password_or_header_of_a_check_is_shown_logged_or_told_to_another_host(cluster: Cluster) -> None:
    owner, other = cluster.members
    assert until(lambda: has_outputs(other), within_s=CHECKED_S_MAX)
    for member in cluster.members:
        for asked in ASKED:
            assert secrets_in(member.agent.call("GET", asked)[1]) == [], asked
        for command in COMMANDS:
            assert secrets_in(said(member, command)) == [], command
        assert secrets_in(member.agent.log().encode()) == []
    validated = ("validate", str(owner.agent.folder / "config.json"))
    assert secrets_in(said(owner, validated)) == []
    assert other.agent.stop() == 0
    kept = [path for path in other.agent.folder.rglob("*") if path.is_file()]
    assert [path for path in kept if secrets_in(path.read_bytes())] == []


def test_the_agent_that_runs_a_check_keeps_its_password_in_files_of_its_own(cluster: Cluster) -> None:
    folder = cluster.members[0].agent.folder / "data"
    kept = [path for path in folder.rglob("*") if path.is_file() and secrets_in(path.read_bytes())]
    assert len(kept) == len(targets(0, 0))
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}


def has_outputs(member: Member) -> bool:
    """Of all checks of the other one: what passes is told without its output, which is asked for."""
    checks = member.agent.get_json("/v1/health/node/m00?output=full")
    return len(checks) == len(targets(0, 0)) + 2 and all(check["Output"] for check in checks)


def said(member: Member, words: tuple[str, ...]) -> bytes:
    environment = {**os.environ, "CONSUL_HTTP_ADDR": f"127.0.0.1:{member.place.ports.http}"}
    done = subprocess.run(
        [*member.agent.program.command, *words], env=environment, capture_output=True, check=False
    )
    return done.stdout + done.stderr


def secrets_in(text: bytes) -> list[str]:
    return [secret for secret in SECRETS if secret.encode() in text]
