"""The fuzzer itself: its inputs open, a seed gives them again, a file gives them back, a look sees faults."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from adsum.agent.saved_files import COPY
from adsum.catalog.replication import deltas
from adsum.catalog.saved import CHECKS, SERVICES, opened
from adsum.cbor import BadEncoding
from adsum.gossip import claims, wire
from tests.fuzz import watch
from tests.fuzz.catalog import Catalog
from tests.fuzz.cluster import warm_up
from tests.fuzz.files import Files
from tests.fuzz.gossip import Gossip
from tests.fuzz.participants import FUZZER
from tests.fuzz.requests import LEFT_OUT, every_route
from tests.fuzz.shrinking import example, kept, simplest, smallest
from tests.fuzz.slices import SHARES, mixed
from tests.fuzz.starts import write
from tests.fuzz.trees import Cbor, Damaged, Input, Known, Saved, built, line_of, read_line
from tests.fuzz.values import Values
from tests.fuzz.watch import PASS_S_MAX, Finding, Watched
from tests.system.agents import ROOT, STOP_S_MAX, Agent, Program, running

KNOWN = {"life": 1_763_000_000_000, "now": 1_763_000_000_000, "ask": 7} | {
    f"port{n}": 8_300 + n for n in range(4)
}
FEW = dict.fromkeys(SHARES, 12) | {"http": 40}
START = "from tests.fuzz.faulty import main; sys.exit(main())"
CODE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {START}"
FAULTY = Program("Adsum", (sys.executable, "-c", CODE))


class Unmutated(Values):
    """Leaves every good input as it is."""

    def mutated(self, tree: object, *, times_max: int = 3) -> object:
        return tree

    def seldom_damaged(self, value: object) -> object:
        return value


def test_what_nobody_mutated_is_what_agents_say_to_each_other() -> None:
    gossip, catalog = Gossip(Unmutated(Random(1))), Catalog(Unmutated(Random(2)))
    for _ in range(200):
        body = built(gossip.datagram().content["body"], KNOWN)  # type: ignore[index]  # a map by its door
        assert wire.decode(body).kind < 6
        assert deltas.decode(built(Cbor(catalog.push()), KNOWN)).owner
        assert deltas.decode(built(Cbor(catalog.span()), KNOWN)).owner


def test_claims_of_all_kinds_are_decoded_and_odd_hosts_are_among_those_that_are_sent() -> None:
    gossip, kinds, hosts = Gossip(Values(Random(3))), set[str](), set[str]()
    for _ in range(2_000):
        hosts.add(str(gossip.alive(FUZZER)[5]))
        try:
            kinds.add(type(claims.decode(built(Cbor(gossip.claim()), KNOWN))).__name__)
        except BadEncoding:
            continue
    assert kinds == {"Alive", "Suspect", "Dead", "Left", "RestartingSoon", "UserEvent"}
    assert any(host.startswith("fe80::1%") and "\0" in host for host in hosts)


def test_every_door_is_used_and_every_route_is_asked() -> None:
    inputs = mixed("routes", {**FEW, "http": 1_500})
    assert {each.door for each in inputs} == {"datagram", "stream", "calls", "answer", "http", "dns"}
    paths = [each.content["path"] for each in inputs if each.door == "http"]  # type: ignore[index]
    asked = {route.path for route in every_route() if any(path.startswith(route.path) for path in paths)}
    assert {route.path for route in every_route()} - asked == set(LEFT_OUT)


def test_a_seed_gives_the_same_inputs_in_every_process() -> None:
    program = (
        "from tests.fuzz.slices import folder, mixed\nfrom tests.fuzz.trees import line_of\n"
        f"print(*map(line_of, mixed('7', {FEW!r}) + folder('7')), sep='\\n')"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(runs[0].splitlines()) > 100


def test_a_file_gives_inputs_back_as_they_were(tmp_path: Path) -> None:
    sent = mixed("file", FEW)
    sent += sent[-1:] * 9
    assert [line_of(each) for each in example(kept("some", sent, tmp_path))] == [
        line_of(each) for each in sent
    ]
    tree = {"a": [Known("now", 2), Cbor([b"\0", None, True, 1 << 64, "\0"]), Damaged(Saved(1.5), ((1, 2),))]}
    assert read_line(line_of(Input("dns", 2, tree))) == Input("dns", 2, tree)


def test_what_is_only_known_when_it_is_sent_is_put_in_then() -> None:
    tree = {"port": Known("port1", 1), "claim": Damaged(Cbor([1, b"a"]), ((0, 0x83),))}
    assert built(tree, KNOWN) == {"port": 8_302, "claim": b"\x83\x01\x41a"}


def test_what_fails_is_made_as_small_as_it_goes() -> None:
    inputs = [Input("dns", 0, number) for number in range(100)]
    culprits = {17, 83}
    found = smallest(inputs, lambda tried: culprits <= {each.content for each in tried})
    assert [each.content for each in found] == [17, 83]


def test_parts_that_do_not_matter_are_left_out_of_what_fails() -> None:
    claims_told = [Cbor([0, "good"]), Cbor([1, "bad"]), Cbor([2, "good"])]
    inputs = [Input("datagram", 0, {"body": Cbor([4, claims_told, [[b"other"]]])})]
    found = simplest(inputs, lambda tried: "bad" in line_of(tried[0]))
    assert [each.content for each in found] == [{"body": Cbor([4, [Cbor([1, "bad"])]])}]


# A look, at agents with a mistake of each kind built in.


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with running(FAULTY, {"node_name": "n0"}) as agent:
        yield begun(agent)


def begun(agent: Agent) -> Watched:
    fresh = Watched(agent, "n0")
    warm_up(fresh)
    fresh.begin()
    return fresh


def test_a_look_at_an_agent_that_is_well_finds_nothing(watched: Watched) -> None:
    watched.look()
    assert 0 < watched.longest_s < PASS_S_MAX


def test_a_pass_of_the_loop_that_takes_too_long_is_found(watched: Watched) -> None:
    watched.agent.call("GET", "/v1/status/peers?mistake=burn")
    with pytest.raises(Finding, match="n0 held its loop 1 times"):
        watched._check_passes()
    watched.begin()


def test_a_traceback_in_the_log_is_found(watched: Watched) -> None:
    watched.agent.call("GET", "/v1/status/peers?mistake=fail")
    with pytest.raises(Finding, match="LookupError: a mistake"):
        watched.look()
    watched.begin()


def test_an_input_that_was_dropped_because_of_a_mistake_is_found(watched: Watched) -> None:
    watched.agent.call("GET", "/v1/status/peers?mistake=drop")
    with pytest.raises(Finding, match="a mistake that one input met"):
        watched.look()
    watched.begin()


def test_much_that_is_written_to_the_log_is_found(watched: Watched) -> None:
    watched.agent.call("GET", "/v1/status/peers?mistake=write")
    with pytest.raises(Finding, match=r"n0 wrote \d+ bytes of log"):
        watched.look()
    watched.begin()


def test_growth_is_found(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "GROWTH_MB_MAX", -1.0)
    with pytest.raises(Finding, match="n0 grew from"):
        watched.look()


def test_an_agent_that_ended_is_found() -> None:
    with running(FAULTY, {"node_name": "n0"}) as agent:
        ended = begun(agent)
        with pytest.raises((OSError, http.client.HTTPException)):
            agent.call("GET", "/v1/status/peers?mistake=end")
        agent.process.wait(STOP_S_MAX)
        with pytest.raises(Finding, match="n0 ended with status 3"):
            ended.look()


def test_saved_files_are_whole_by_their_checksum(tmp_path: Path) -> None:
    write(tmp_path, Files(Unmutated(Random(4))).folder())
    assert opened((tmp_path / COPY).read_bytes())[0] in (1, 2, 3)
    registrations = [*(tmp_path / SERVICES).iterdir(), *(tmp_path / CHECKS).iterdir()]
    assert all("name" in opened(path.read_bytes()) for path in registrations)
    assert registrations
