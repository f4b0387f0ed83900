"""The catalog of the contract's transcripts (section 3.5), and a way to ask it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import dns.message
import dns.rrset

from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check, Node, Service
from adsum.catalog.view import View
from adsum.dns import wire
from adsum.dns.answers import Answers, Transport
from adsum.dns.settings import DnsSettings
from adsum.now import Now

NOW = Now(0, 1_795_003_745_000)
Ask = Callable[..., dns.message.Message]


class Catalog:
    """A view with the verbs a test wants."""

    def __init__(self) -> None:
        self.view = View(NOW, tag=7)

    def node(self, name: str, address: str, **meta: str) -> None:
        node = Node(node_id=name, name=name, address=address, datacenter="dc1", meta=meta)
        self.view.put_node(NOW, "owner", node)

    def service(
        self,
        service_id: str,
        name: str = "",
        *,
        node: str = "n1",
        address: str = "",
        port: int = 0,
        tags: tuple[str, ...] = (),
        weights: tuple[int, int] = (1, 1),
        status: CheckStatus = CheckStatus.PASSING,
    ) -> None:
        service = Service(
            service_id=service_id,
            name=name or service_id,
            address=address,
            port=port,
            tags=tags,
            weight_passing=weights[0],
            weight_warning=weights[1],
        )
        self.view.put_service(NOW, node, service)
        check = Check(check_id=f"service:{service_id}", name=name, status=status, service_id=service_id)
        self.view.put_check(NOW, node, check)

    def node_check(self, node: str, status: CheckStatus) -> None:
        self.view.put_check(NOW, node, Check(check_id="disk", name="disk", status=status))


def standard_catalog() -> Catalog:
    catalog = Catalog()
    catalog.node("n1", "127.0.0.1", **{"rack": "r1", "rfc1035-x": "v", "consul-network-segment": ""})
    catalog.service("consul", port=8300)
    catalog.service("web1", "web", port=80, tags=("a", "b"), weights=(5, 2))
    catalog.service("web2", "web", address="10.0.0.2", port=81, tags=("a", "c"), status=CheckStatus.WARNING)
    catalog.service("web3", "web", address="10.0.0.3", port=83, tags=("a",), status=CheckStatus.CRITICAL)
    catalog.service("v6", address="2001:db8::1", port=82)
    catalog.service("cn", address="web.service.consul", port=84)
    catalog.service("self", address="self.service.consul", port=86)
    catalog.service("loop1", address="loop2.service.consul", port=87)
    catalog.service("loop2", address="loop1.service.consul", port=88)
    catalog.service("mixed1", "mixed", address="www.example.com", port=1)
    catalog.service("mixed2", "mixed", address="10.0.0.9", port=2)
    catalog.service("dotted", tags=("X.y",), port=85)
    for number in range(20):
        catalog.service(f"many{number}", "many", address=f"10.1.0.{number + 1}", port=9000 + number)
    catalog.node("ext", "www.example.com")
    catalog.service("search", node="ext", port=8080)
    catalog.node("dot.ted", "10.9.9.9")
    return catalog


def asker(view: View, settings: DnsSettings, seed: int = 1) -> Ask:
    """Ask as a client does, in bytes, and read the answer with dnspython."""
    answers = Answers(view, settings, Random(seed))

    def ask(
        name: str, rdtype: str = "A", *, edns: int | None = None, transport: Transport = Transport.UDP_HERE
    ) -> dns.message.Message:
        request = dns.message.make_query(
            name, rdtype, use_edns=False if edns is None else 0, payload=edns or 0
        )
        packet = request.to_wire()
        question = wire.parse_question(packet)
        assert question is not None
        head, body = answers.to(question, transport).take()
        reply = packet[:2] + head + question.echo + body
        parsed = dns.message.from_wire(reply, one_rr_per_rrset=True)
        assert request.is_response(parsed)
        return parsed

    return ask


def lines(section: list[dns.rrset.RRset]) -> list[str]:
    """Each record as dig prints it, sorted: rotation is tested elsewhere."""
    return sorted(line for rrset in section for line in rrset.to_text().splitlines())
