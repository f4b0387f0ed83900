"""Names that are not ours, asked of small name servers on loopback that behave as badly as a test wants."""

from __future__ import annotations

from collections.abc import Callable

import dns.flags
import dns.message
import dns.rcode
import pytest
import trio

from adsum.dns.limits import DnsLimits
from adsum.dns.settings import DnsSettings, Recursor
from adsum.dns_server.server import bind_both
from tests.dns.support import Catalog, lines
from tests.dns_server.test_server import exactly, framed, query, reply_on, serving
from tests.files import no_file_left

Behaviour = Callable[[dns.message.Message], list[bytes]]


def found(request: dns.message.Message) -> list[bytes]:
    response = dns.message.make_response(request, recursion_available=True)
    response.answer.append(dns.rrset.from_text(request.question[0].name, 300, "IN", "A", "192.0.2.1"))
    return [response.to_wire()]


def saying(rcode: dns.rcode.Rcode) -> Behaviour:
    def say(request: dns.message.Message) -> list[bytes]:
        response = dns.message.make_response(request)
        response.set_rcode(rcode)
        return [response.to_wire()]

    return say


def silent(request: dns.message.Message) -> list[bytes]:
    return []


class NameServer:
    """Answers over UDP and TCP by its behaviour, and keeps what it was asked."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.asked: list[dns.message.Message] = []
        self.ports: set[int] = set()
        self._behaviour = behaviour

    async def run(self, task_status: trio.TaskStatus[Recursor]) -> None:
        sock, listener = bind_both("127.0.0.1", 0)
        with trio.socket.from_stdlib_socket(sock) as udp:
            async with trio.open_nursery() as nursery:
                await nursery.start(trio.serve_listeners, self._converse, [listener])
                task_status.started(Recursor(host="127.0.0.1", port=udp.getsockname()[1]))
                while True:
                    packet, peer = await udp.recvfrom(65535)
                    self.ports.add(peer[1])
                    for reply in self._replies(packet):
                        await udp.sendto(reply, peer)

    async def _converse(self, stream: trio.SocketStream) -> None:
        packet = await exactly(stream, int.from_bytes(await exactly(stream, 2)))
        for reply in self._replies(packet):
            await stream.send_all(len(reply).to_bytes(2) + reply)

    def _replies(self, packet: bytes) -> list[bytes]:
        request = dns.message.from_wire(packet)
        self.asked.append(request)
        return self._behaviour(request)


async def started(nursery: trio.Nursery, *behaviours: Behaviour) -> tuple[list[NameServer], DnsSettings]:
    servers = [NameServer(behaviour) for behaviour in behaviours]
    recursors = tuple([await nursery.start(server.run) for server in servers])
    return servers, DnsSettings(recursors=recursors)


async def test_other_peoples_names_are_forwarded_as_they_were_asked(catalog: Catalog) -> None:
    async with trio.open_nursery() as nursery:
        (upstream,), settings = await started(nursery, found)
        async with serving(catalog, settings) as server:
            request = dns.message.make_query("Www.example.com", "A", payload=1400, want_dnssec=True)
            reply = await server.ask(request)
        assert lines(reply.answer) == ["Www.example.com. 300 IN A 192.0.2.1"]
        assert reply.flags & dns.flags.RA
        assert upstream.asked[0].payload == 1400
        assert upstream.asked[0].ednsflags == request.ednsflags
        assert upstream.asked[0].question == request.question
        nursery.cancel_scope.cancel()
    assert server.counters.recursed == 1
    assert server.counters.recursions == 0


async def test_tcp_stays_tcp(catalog: Catalog) -> None:
    async with trio.open_nursery() as nursery:
        (upstream,), settings = await started(nursery, found)
        async with serving(catalog, settings) as server, await server.connect() as stream:
            await stream.send_all(framed(query("www.example.com")))
            assert (await reply_on(stream)).answer
        assert not upstream.ports
        nursery.cancel_scope.cancel()


async def test_nxdomain_is_an_answer(catalog: Catalog) -> None:
    async with trio.open_nursery() as nursery:
        (_, second), settings = await started(nursery, saying(dns.rcode.NXDOMAIN), found)
        async with serving(catalog, settings) as server:
            assert (await server.ask(query("nope.example.com"))).rcode() == dns.rcode.NXDOMAIN
        assert not second.asked
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("rcode", [dns.rcode.SERVFAIL, dns.rcode.REFUSED, dns.rcode.FORMERR])
async def test_other_outcomes_move_on_to_the_next_recursor(catalog: Catalog, rcode: dns.rcode.Rcode) -> None:
    async with trio.open_nursery() as nursery:
        _, settings = await started(nursery, saying(rcode), found)
        async with serving(catalog, settings) as server:
            assert (await server.ask(query("www.example.com"))).answer
        nursery.cancel_scope.cancel()
    assert server.counters.recursor_errors == 1


async def test_silent_recursor_is_left_after_its_timeout(
    catalog: Catalog, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        _, settings = await started(nursery, silent, found)
        async with serving(catalog, settings) as server:
            assert (await server.ask(query("www.example.com"))).answer
        nursery.cancel_scope.cancel()
    assert server.counters.recursor_timeouts == 1


async def test_when_all_recursors_fail_the_answer_is_servfail(catalog: Catalog) -> None:
    async with trio.open_nursery() as nursery:
        _, settings = await started(nursery, saying(dns.rcode.REFUSED), saying(dns.rcode.SERVFAIL))
        async with serving(catalog, settings) as server:
            reply = await server.ask(query("www.example.com", edns=1232))
        assert reply.rcode() == dns.rcode.SERVFAIL
        assert reply.flags & dns.flags.RA
        nursery.cancel_scope.cancel()
    assert server.counters.recursion_failures == 1


async def test_forged_replies_are_passed_over(catalog: Catalog) -> None:
    def forger(request: dns.message.Message) -> list[bytes]:
        (good,) = found(request)
        wrong_id = bytes((good[0] ^ 1,)) + good[1:]
        wrong_question = good.replace(b"\3www", b"\3wwx")
        no_answer = good[:2] + b"\0" + good[3:]
        return [wrong_id, wrong_question, no_answer, b"", good]

    async with trio.open_nursery() as nursery:
        _, settings = await started(nursery, forger)
        async with serving(catalog, settings) as server:
            assert lines((await server.ask(query("www.example.com"))).answer) == [
                "www.example.com. 300 IN A 192.0.2.1"
            ]
        nursery.cancel_scope.cancel()
    assert server.counters.recursor_mismatches == 4


async def test_each_question_leaves_by_a_port_and_an_id_of_its_own(catalog: Catalog) -> None:
    async with trio.open_nursery() as nursery:
        (upstream,), settings = await started(nursery, found)
        async with serving(catalog, settings) as server:
            for _ in range(5):
                await server.ask(query("www.example.com"))
        assert len({request.id for request in upstream.asked}) == 5
        assert len(upstream.ports) >= 4  # the kernel may draw one twice
        nursery.cancel_scope.cancel()


async def test_questions_over_the_limit_fail_at_once(catalog: Catalog) -> None:
    async with trio.open_nursery() as nursery:
        _, settings = await started(nursery, silent)
        limits = DnsLimits(recursions_max=1)
        async with serving(catalog, settings, limits) as server, server.udp() as sock:
            await sock.send(query("slow.example.com").to_wire())
            await trio.testing.wait_all_tasks_blocked()
            assert (await server.ask(query("www.example.com"))).rcode() == dns.rcode.SERVFAIL
            assert server.counters.recursions_turned_away == 1
        nursery.cancel_scope.cancel()


async def test_alias_that_leaves_our_domains_is_finished_by_a_recursor(catalog: Catalog) -> None:
    def edge(request: dns.message.Message) -> list[bytes]:
        response = dns.message.make_response(request)
        name = request.question[0].name
        response.answer.append(dns.rrset.from_text(name, 300, "IN", "CNAME", "edge.example.net."))
        response.answer.append(dns.rrset.from_text("edge.example.net.", 60, "IN", "A", "192.0.2.1"))
        return [response.to_wire()]

    async with trio.open_nursery() as nursery:
        (upstream,), settings = await started(nursery, edge)
        async with serving(catalog, settings) as server:
            for rdtype in ("A", "AAAA"):
                assert lines((await server.ask(query("search.service.consul", rdtype))).answer) == [
                    "edge.example.net. 0 IN A 192.0.2.1",
                    "search.service.consul. 0 IN CNAME www.example.com.",
                    "www.example.com. 0 IN CNAME edge.example.net.",
                ]
            node = await server.ask(query("ext.node.consul"))
            assert "edge.example.net. 60 IN A 192.0.2.1" in lines(node.answer)
        assert {str(request.question[0]) for request in upstream.asked} == {"www.example.com. IN A"}
        nursery.cancel_scope.cancel()


async def test_alias_stands_alone_when_no_recursor_answers(catalog: Catalog) -> None:
    async with trio.open_nursery() as nursery:
        _, settings = await started(nursery, saying(dns.rcode.SERVFAIL))
        async with serving(catalog, settings) as server:
            reply = await server.ask(query("search.service.consul"))
        assert reply.rcode() == dns.rcode.NOERROR
        assert lines(reply.answer) == ["search.service.consul. 0 IN CNAME www.example.com."]
        nursery.cancel_scope.cancel()


async def test_pointer_we_do_not_know_goes_to_the_recursors(catalog: Catalog) -> None:
    def named(request: dns.message.Message) -> list[bytes]:
        response = dns.message.make_response(request)
        response.answer.append(dns.rrset.from_text(request.question[0].name, 5, "IN", "PTR", "host.example."))
        return [response.to_wire()]

    async with trio.open_nursery() as nursery:
        _, settings = await started(nursery, named)
        async with serving(catalog, settings) as server:
            unknown = await server.ask(query("7.7.7.10.in-addr.arpa", "PTR"))
            known = await server.ask(query("2.0.0.10.in-addr.arpa", "PTR"))
        assert str(unknown.answer[0][0]) == "host.example."
        assert str(known.answer[0][0]) == "web.service.dc1.consul."
        nursery.cancel_scope.cancel()


async def test_without_a_file_for_it_a_recursor_is_not_asked_and_the_log_says_what_to_do(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    async with trio.open_nursery() as nursery:
        (upstream,), settings = await started(nursery, found)
        async with serving(catalog, settings) as server, server.udp() as asker:
            for number in range(2):
                request = query(f"www{number}.example.com")
                with no_file_left():
                    await asker.send(request.to_wire())
                    reply = dns.message.from_wire(await asker.recv(512))
                assert reply.rcode() == dns.rcode.SERVFAIL
        assert upstream.asked == []
        nursery.cancel_scope.cancel()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("recursors cannot be asked: too many open files: raise the agent's limit")
