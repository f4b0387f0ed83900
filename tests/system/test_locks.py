"""Locks of real servers: what gets around a lock-delay, a fence, or a session's end."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.system.agents import AgentFailed, Program, adsum_program, consul_program, until
from tests.system.clusters import Cluster, Member, emptied, joining, loopbacks
from tests.system.test_sessions import LEADER_S_MAX, created, is_there, leader_of, put

ROUNDS, POLLERS = 60, 12
DELAY_S = 1.0
HOLDERS = 50
HOLDERS_SCRIPT = Path(__file__).with_name("clients") / "fenced_holders.py"
LEADER_CHANGES, LONG_TTL_S = 20, 61
GRACE_S, NEXT_HOLDER_S_MAX = 10.0, 60.0


@contextmanager
def three_servers(program: Program, **config: object) -> Iterator[Cluster]:
    places = loopbacks(3)
    with emptied(Cluster(program)) as cluster:
        for place in places:
            cluster.add(place, {"server": True, "bootstrap_expect": 3, **joining(places[0]), **config})
        cluster.wait_for_one_view()
        assert until(lambda: created(cluster.members[0], {}), within_s=LEADER_S_MAX)
        yield cluster


def test_of_twelve_who_try_at_once_none_gets_around_a_lock_delay() -> None:
    """B16. Consul's is kept by the leader, beside the log: of those that are under way one may pass."""
    lost = {program.name: rounds_lost(program) for program in (adsum_program(), consul_program()) if program}
    print(f"rounds in which somebody had the lock before its delay was over, of {ROUNDS}: {lost}")
    assert lost[adsum_program().name] == 0


def rounds_lost(program: Program) -> int:
    with three_servers(program) as cluster:
        return sum(is_lost(cluster, f"lock/{number}") for number in range(ROUNDS))


def is_lost(cluster: Cluster, key: str) -> bool:
    """Whether one of those who wait for it had it before its delay was over. Each asks again at once, through
    whichever server; the delay begins when the session ends, so not before that was asked for."""
    members = cluster.members
    holder = created(members[0], {"LockDelay": f"{DELAY_S}s"})
    assert members[0].put(f"/v1/kv/{key}?acquire={holder}") == (200, b"true")
    ends_s = [float("inf")]
    had_s: list[float] = []

    def poll(number: int) -> None:
        member = members[number % len(members)]
        session = created(member, {"LockDelay": "0s"})
        with closing(http.client.HTTPConnection("127.0.0.1", member.place.ports.http, timeout=30)) as door:
            while time.monotonic() < ends_s[0]:
                door.request("PUT", f"/v1/kv/{key}?acquire={session}")
                if door.getresponse().read() == b"true":
                    had_s.append(time.monotonic())
                    return

    threads = [threading.Thread(target=poll, args=(number,)) for number in range(POLLERS)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    began_s = time.monotonic()
    ends_s[0] = began_s + 0.9 * DELAY_S
    assert members[0].put(f"/v1/session/destroy/{holder}") == (200, b"true")
    for thread in threads:
        thread.join()
    return any(at_s < began_s + 0.9 * DELAY_S for at_s in had_s)


def test_a_holder_that_was_stopped_past_its_ttl_writes_nothing_under_its_token() -> None:
    """B13. What it writes without the token is written: the fence is what holds."""
    with three_servers(adsum_program(), session_ttl_min="1s") as cluster:
        member = cluster.members[0]
        command = [sys.executable, str(HOLDERS_SCRIPT), str(member.place.ports.http), str(HOLDERS)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holders:
            assert holders.stdin is not None
            assert holders.stdout is not None
            assert holders.stdout.readline() == "held\n"
            holders.send_signal(signal.SIGSTOP)
            successor = created(member, {})
            for number in range(HOLDERS):
                assert until(lambda key=f"lock/{number}": acquired(member, key, successor), within_s=30)  # type: ignore[misc]
            holders.send_signal(signal.SIGCONT)
            print("now", file=holders.stdin, flush=True)
            assert json.loads(holders.stdout.readline()) == [0, HOLDERS]
            holders.stdin.close()


def acquired(member: Member, key: str, session: str) -> bool:
    return member.put(f"/v1/kv/{key}?acquire={session}") == (200, b"true")


def test_after_a_host_was_lost_the_next_holder_is_there_within_a_minute() -> None:
    """Most of that is a silence that becomes a verdict, and the time for which a verdict has to last, as one
    that is wrong would end what is alive. Consul ends the session with the verdict."""
    took_s = {
        program.name: next_holder_s(program) for program in (adsum_program(), consul_program()) if program
    }
    told = {name: f"{each:.1f} s" for name, each in took_s.items()}
    print(f"from a lost host to the next holder, with a lock-delay of {DELAY_S:g} s: {told}")
    assert GRACE_S + DELAY_S < took_s[adsum_program().name] < NEXT_HOLDER_S_MAX


def next_holder_s(program: Program) -> float:
    """The host is not heard of any more, and refuses nothing: all of its agent stands still."""
    with three_servers(program) as cluster:
        first = cluster.members[0].place
        lost, other = (cluster.add(place, joining(first)) for place in loopbacks(2))
        cluster.wait_for_one_view()
        assert until(lambda: created(lost, {}) and created(other, {}), within_s=LEADER_S_MAX)
        holder, successor = created(lost, {"LockDelay": f"{DELAY_S}s"}), created(other, {})
        assert acquired(lost, "lock", holder)
        lost.pause()
        try:
            began_s = time.monotonic()
            assert until(lambda: acquired(other, "lock", successor), within_s=2 * NEXT_HOLDER_S_MAX)
            return time.monotonic() - began_s
        finally:
            lost.kill()


def test_twenty_leaders_within_one_ttl_neither_keep_a_dead_session_nor_end_a_live_one() -> None:
    """B15. With Consul each leader begins the TTL anew."""
    with three_servers(adsum_program()) as cluster:
        member = cluster.members[0]
        dead, live = (created(member, {"TTL": f"{LONG_TTL_S}s"}) for _ in range(2))
        began_s = time.monotonic()
        ends = threading.Event()
        gone: list[int] = []

        def renew() -> None:
            while not ends.wait(5.0):
                for each in cluster.members:
                    with suppress(OSError, http.client.HTTPException, AgentFailed):  # it is stopped just now
                        status, _body = each.agent.put(f"/v1/session/renew/{live}")
                        if status in (200, 404):
                            gone.append(status == 404)
                            break

        renewing = threading.Thread(target=renew)
        renewing.start()
        try:
            for _ in range(LEADER_CHANGES):
                change_leader(cluster)
            took_s = time.monotonic() - began_s
            # Twice the TTL, and ten seconds for each change of the leader at most.
            assert until(lambda: not is_there(member, dead), within_s=2 * LONG_TTL_S + took_s)
            assert time.monotonic() - began_s < 2 * LONG_TTL_S + 10 * LEADER_CHANGES
            assert is_there(member, live)
        finally:
            ends.set()
            renewing.join()
        assert not any(gone)


def change_leader(cluster: Cluster) -> None:
    """The leader is stopped in order, so that it hands over, and started again."""
    led_by = leader_of(cluster.members[0]) or leader_of(cluster.members[1])
    leader = next(
        each for each in cluster.members if str(each.place.ports.server) == led_by.rpartition(":")[2]
    )
    leader.stop()
    others = [each for each in cluster.members if each is not leader]
    assert until(lambda: put(others[0]) == 200, within_s=LEADER_S_MAX)
    leader.restart()
    assert until(lambda: leader_of(leader), within_s=LEADER_S_MAX)


@pytest.fixture(autouse=True)
def no_consul_is_said() -> None:
    if consul_program() is None:
        print("no real Consul to show beside: set PEERS, or see ../shared/peers/get")
