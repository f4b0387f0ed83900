"""An agent that may open few files, and clients that take all they are given: connections that say nothing,
and some that ask once and stay, for a minute, each replaced when the agent closes it.
"""

from __future__ import annotations

import http.client
import json
import resource
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import dns.message
import pytest

from tests.system.agents import CALL_S_MAX, Agent, Program, adsum_program, until
from tests.system.clusters import Cluster, Member, Status, emptied, joining, loopbacks, role
from tests.system.test_abuse import counted

HELD_S = 60.0
FIGURES_S = 12.0
PAUSE_S = 0.2  # before a crowd looks again whom it has lost
ANSWER_S_MAX = 2.0  # the machine has other work
SETTLE_S_MAX = 10.0
LOG_LINES_MAX = 25
# All shares together are no more than there are files, so nothing ever lacked one.
SHORTAGES = (
    "adsum_http_accept_errors_total",
    "adsum_dns_accept_errors_total",
    "adsum_stream_accept_errors_total",
    "adsum_shortages_total",
    "adsum_storage_failures_total",
)
QUESTION = dns.message.make_query("few.node.consul", "A").to_wire()


@pytest.mark.parametrize("files", [64, 128, 256])
def test_whoever_takes_all_connections_ends_nothing_and_silences_nobody(files: int) -> None:
    with cluster_with_few_files(files) as (few, others):
        lines = len(few.agent.log().splitlines())
        assert few.put("/v1/agent/service/register", {"Name": "before"})[0] == http.client.OK
        with crowded(few, files):
            assert not until(lambda: harm(few, others), within_s=HELD_S)
        assert until(lambda: answers_http(few), within_s=SETTLE_S_MAX)
        assert {name: counted(few.agent, name) for name in SHORTAGES} == dict.fromkeys(SHORTAGES, 0)
        assert few.put("/v1/agent/service/register", {"Name": "after"})[0] == http.client.OK
        assert few.agent.process.poll() is None
        log = few.agent.log()
        assert "Traceback" not in log
        assert len(log.splitlines()) - lines <= LOG_LINES_MAX, few.agent.log_tail()


def test_an_agent_that_can_open_nothing_at_all_goes_on(durable_agent: Agent) -> None:
    """Until figures are taken, which is every ten seconds, and with all that might open a file meanwhile."""
    agent = durable_agent
    agent.put("/v1/agent/service/register", {"Name": "early"})  # which loads what registering takes
    limits = resource.prlimit(agent.pid, resource.RLIMIT_NOFILE)
    asker = http.client.HTTPConnection("127.0.0.1", agent.ports.http, timeout=CALL_S_MAX)
    asker.connect()
    asked = ask(asker, "GET", "/v1/agent/host")
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (0, limits[1]))
    with closing(socket.create_connection(("127.0.0.1", agent.ports.http))) as waiting:
        agent.send(signal.SIGHUP)
        assert ask(asker, "GET", "/v1/agent/host") == asked
        assert ask(asker, "GET", "/metrics") == http.client.SERVICE_UNAVAILABLE
        asker.request("PUT", "/v1/agent/service/register", json.dumps({"Name": "late"}))
        assert not until(lambda: agent.process.poll() is not None, within_s=FIGURES_S)
        resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, limits)
        assert asker.getresponse().status == http.client.OK
        waiting.settimeout(CALL_S_MAX)
        waiting.sendall(b"GET /v1/agent/services HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert b"late" in waiting.recv(65_536)
    asker.close()
    log = agent.log()
    assert "Traceback" not in log
    assert "connections of HTTP clients cannot be taken: too many open files" in log
    assert len(log.splitlines()) <= LOG_LINES_MAX


def ask(asker: http.client.HTTPConnection, method: str, target: str) -> int:
    asker.request(method, target)
    response = asker.getresponse()
    response.read()
    return response.status


def test_a_limit_that_is_too_small_to_run_is_refused_with_a_sentence() -> None:
    command = [*with_files(adsum_program(), 40).command, "agent", "-dev"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "The agent did not start: this process may open 40 files" in done.stderr
    assert "LimitNOFILE" in done.stderr
    assert "Traceback" not in done.stderr


@contextmanager
def cluster_with_few_files(files: int) -> Iterator[tuple[Member, list[Member]]]:
    program, places = adsum_program(), loopbacks(3)
    with emptied(Cluster(program)) as cluster:
        others = [cluster.add(place, role(places, place)) for place in places[:2]]
        cluster.program = with_files(program, files)
        few = cluster.add(places[2], joining(places[0]), "few")
        cluster.wait_for_one_view()
        yield few, others


def with_files(program: Program, files: int) -> Program:
    shell = ("/bin/sh", "-c", f'ulimit -n {files} && exec "$@"', "sh")
    return Program(program.name, (*shell, *program.command))


def harm(few: Member, others: list[Member]) -> str:
    """What a user would notice, if there is anything."""
    if few.agent.process.poll() is not None:
        return f"it ended with {few.agent.process.returncode}: {few.agent.log_tail()}"
    for other in others:
        if other.view().get(few.name) is not Status.ALIVE:
            return f"{other.name} does not call it alive"
    return "" if any(answers_dns(few) for _ in range(3)) else "it does not answer DNS"


def answers_dns(few: Member) -> bool:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as asker:
        asker.settimeout(ANSWER_S_MAX)
        asker.connect((few.place.address, few.place.ports.dns))
        asker.send(QUESTION)
        try:
            return len(dns.message.from_wire(asker.recv(512)).answer) == 1
        except OSError:
            return False


def answers_http(few: Member) -> bool:
    try:
        return few.agent.call("GET", "/v1/agent/self", timeout_s=ANSWER_S_MAX)[0] == http.client.OK
    except (OSError, http.client.HTTPException):
        return False


@contextmanager
def crowded(few: Member, files: int) -> Iterator[None]:
    ports, framed = few.place.ports, len(QUESTION).to_bytes(2) + QUESTION
    wanted = [(ports.http, b""), (ports.dns, b""), (ports.dns, framed), (ports.serf_lan, b"")] * files
    gone = threading.Event()
    thread = threading.Thread(target=keep, args=(few.place.address, wanted, gone))
    thread.start()
    try:
        yield
    finally:
        gone.set()
        thread.join()


def keep(host: str, wanted: list[tuple[int, bytes]], gone: threading.Event) -> None:
    """As many connections as were wanted, as far as they can be had."""
    held: dict[int, socket.socket] = {}
    while not gone.wait(PAUSE_S):
        for number, (port, first) in enumerate(wanted):
            if number in held and is_closed(held[number]):
                held.pop(number).close()
            if number not in held:
                held[number] = begun(host, port, first)
    for stream in held.values():
        stream.close()


def begun(host: str, port: int, first: bytes) -> socket.socket:
    stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    stream.settimeout(ANSWER_S_MAX)
    try:
        stream.connect((host, port))
        stream.sendall(first)
    except OSError:
        stream.close()
    else:
        stream.setblocking(False)
    return stream


def is_closed(stream: socket.socket) -> bool:
    """Answers are read and thrown away."""
    if stream.fileno() < 0:
        return True
    try:
        return not stream.recv(65_536)
    except BlockingIOError:
        return False
    except OSError:
        return True
