"""Three real agents as one cluster and the fuzzer as its fourth member, in plaintext or sealed."""

from __future__ import annotations

import contextlib
import http.client
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import dns.edns
import dns.message
import dns.query

from adsum.net.keyring import GossipKey
from tests.fuzz.doors import Doors
from tests.fuzz.member import Member
from tests.fuzz.participants import AGENTS_ATTACKED
from tests.fuzz.trees import Input
from tests.fuzz.watch import FAULTS, Finding, Watched
from tests.system.agents import Program, until
from tests.system.clusters import Cluster, emptied, loopbacks
from tests.system.clusters import role as role_of

KEY_TEXT = "pUqJrVyVRj5jsiYEkM/tFQYfWyJIv4s3XkvUvmmLqeY="
LATER_S = 3.0
TOGETHER_S_MAX = 30.0
# As often an agent is asked something between inputs, so that it has read what lies in its sockets.
INPUTS_AT_ONCE = 64
FIRST_ANSWER_S_MAX = 5.0
FIRST_TARGETS = (
    *("/metrics", "/v1/catalog/nodes?filter=Node+matches+%22a%22", "/v1/membership/timeline", "/ui/"),
    "/v1/event/list?service=a",
)
SUBNET = dns.edns.ECSOption("192.0.2.0", 24)
COMMON = {"log_level": "INFO", "client_addr": "127.0.0.1"}


def measured_program(python: str = sys.executable) -> Program:
    """The Adsum that this interpreter has."""
    return Program("Adsum", (python, "-P", str(Path(__file__).with_name("measured.py"))))


@dataclass(slots=True)
class Attacked:
    watched: list[Watched]
    member: Member
    doors: Doors
    sent: Counter[str] = field(default_factory=Counter)

    def send_all(self, inputs: Iterable[Input]) -> None:
        """The fuzzer is listed again before, whatever was said of it."""
        for each in self.watched:
            self.member.join(each.agent.ports.serf_lan)
        for number, each_input in enumerate(inputs):
            self.doors.send(each_input)
            self.sent[each_input.door] += 1
            if number % INPUTS_AT_ONCE == 0:
                self._let_read(self.watched[number // INPUTS_AT_ONCE % len(self.watched)])

    def look(self) -> None:
        """Raises `Finding` for the first agent of which something is not as it must be."""
        for each in self.watched:
            each.look()

    def look_later(self) -> None:
        """Again, when claims were told on and addresses tried for some rounds of gossip."""
        until(lambda: any(each.has_ended for each in self.watched), within_s=LATER_S)
        self.look()

    def end(self) -> None:
        """In order, which writes down all that is known; raises `Finding`."""
        for each in self.watched:
            each.agent.send(signal.SIGTERM)
        for each in self.watched:
            status, log = each.agent.wait_for_end(), each.agent.log()
            if status or any(mark in log for mark in FAULTS):
                raise Finding(f"{each.name}, told to stop, ended with status {status}:\n{log[-3_000:]}")

    def settle(self) -> None:
        for each in self.watched:
            each.settle()

    def _let_read(self, watched: Watched) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):  # what is wrong, a look tells
            watched.agent.call("GET", "/v1/status/leader")


@contextmanager
def attacked(*, is_sealed: bool, python: str = sys.executable) -> Iterator[Attacked]:
    key = GossipKey.from_text(KEY_TEXT) if is_sealed else None
    with ExitStack() as opened:
        cluster = opened.enter_context(emptied(Cluster(measured_program(python))))
        places = loopbacks(len(AGENTS_ATTACKED))
        for participant, place in zip(AGENTS_ATTACKED, places, strict=True):
            secret = {"encrypt": KEY_TEXT} if is_sealed else {}
            role = role_of(places, place)
            cluster.add(
                place, {**COMMON, **role, **secret, "node_id": participant.uuid_text}, participant.name
            )
        cluster.wait_for_one_view(TOGETHER_S_MAX)
        member = opened.enter_context(Member(key))
        doors = opened.enter_context(closing(Doors([place.ports for place in places], member)))
        watched = [Watched(each.agent, each.name) for each in cluster.members]
        for each in watched:
            warm_up(each)
            each.begin()
        yield Attacked(watched, member, doors)


def warm_up(watched: Watched) -> None:
    """Code is loaded at its first use, in one long pass; not what is measured here."""
    unusual = dns.message.make_query("a.node.consul", "TXT", use_edns=0, options=[SUBNET])
    dns.query.udp(unusual, "127.0.0.1", FIRST_ANSWER_S_MAX, watched.agent.ports.dns)
    for target in FIRST_TARGETS:
        watched.agent.call("GET", target)
