"""The membership as a scraper sees it, read from a shipped core."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from adsum.address import Address
from adsum.config.config import Telemetry
from adsum.gossip import claims
from adsum.gossip.commands import FireEvent, Leave
from adsum.gossip.order import Departure
from adsum.net.errors import NetError
from adsum.net.framing import Forged
from adsum.now import SECOND
from adsum.observe.exposition import Exposition
from adsum.observe.membership_metrics import DIGEST_BITS
from adsum.observe.net_metrics import FAILURES
from adsum.observe.series import NetSource, Sources
from tests.api.agents import FakeAgent
from tests.gossip.support import GENERATION, Stage, alive, dead, short, suspect
from tests.observe.support import sources

Shown = dict[tuple[str, frozenset[tuple[str, str]]], float]


def shown(cluster: Sources) -> Shown:
    text = Exposition(cluster, Telemetry()).prometheus().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(cluster: Sources, name: str, **labels: str) -> float:
    named = {key.removesuffix("_"): label for key, label in labels.items()}
    return shown(cluster)[name, frozenset(named.items())]


def source_of(stage: Stage, net: NetSource | None = None) -> Sources:
    agent = FakeAgent()
    agent.cluster.gossip, agent.cluster.membership = stage.core, stage.core.membership
    return replace(sources(agent), net=net or NetSource())


def members(source: Sources) -> dict[str, float]:
    return {
        state: value(source, "adsum_members", state=state) for state in ("alive", "suspect", "failed", "left")
    }


def test_an_agent_that_knows_nobody_shows_all_series_and_itself() -> None:
    alone, among_others = source_of(Stage()), source_of(Stage("a"))
    assert set(shown(alone)) == set(shown(among_others))
    assert members(alone) == {"alive": 1, "suspect": 0, "failed": 0, "left": 0}


def test_members_are_counted_by_state_with_me() -> None:
    stage = Stage("a", "b", "c", "d", "e")
    stage.tell("a", suspect("b", "a"), dead("c", "a"))
    stage.tell("a", claims.left(short("d"), GENERATION, 0, Departure.LEFT, short("d")))
    cluster = source_of(stage)
    assert members(cluster) == {"alive": 3, "suspect": 1, "failed": 1, "left": 1}
    stage.command(Leave())
    assert members(cluster) == {"alive": 2, "suspect": 1, "failed": 1, "left": 2}


def test_who_was_pruned_is_not_counted() -> None:
    stage = Stage("a", "b", "c")
    stage.tell("a", claims.left(short("b"), GENERATION, 0, Departure.PRUNED, short("a")))
    stage.tell("a", claims.left(short("c"), GENERATION, 0, Departure.LEFT, short("c")))
    assert members(source_of(stage)) == {"alive": 2, "suspect": 0, "failed": 0, "left": 1}


def test_user_events_are_counted_by_what_became_of_them() -> None:
    cluster = sources(FakeAgent())
    counters = cluster.cluster.events.counters
    counters.listed, counters.for_others, counters.unreadable = 3, 2, 1
    found = {
        outcome: value(cluster, "adsum_user_events_total", outcome=outcome)
        for outcome in ("listed", "for_others", "unreadable")
    }
    assert found == {"listed": 3, "for_others": 2, "unreadable": 1}


def test_transitions_tell_from_to_and_cause() -> None:
    stage = Stage("a", "b")
    stage.tell("a", suspect("b", "a"))
    stage.tell("b", alive("b", incarnation=1))
    cluster, name = source_of(stage), "adsum_member_transitions_total"
    assert value(cluster, name, from_="alive", to="suspect", cause="suspected") == 1
    assert value(cluster, name, from_="suspect", to="alive", cause="refuted") == 1
    assert value(cluster, name, from_="failed", to="forgotten", cause="reaped") == 0


def test_what_happens_makes_no_new_series() -> None:
    stage = Stage("a", "b", "c")
    net = NetSource()
    before = set(shown(source_of(stage, net)))
    stage.tell("a", suspect("me", "a"), suspect("b", "a"), dead("c", "a"))
    stage.receive(Address("192.0.2.1", 1), b"junk")
    stage.command(FireEvent("deploy", b""))
    stage.run_for(60 * SECOND)
    net.datagrams.send_errors["ENETUNREACH"] += 1
    net.datagrams.unreachable["EHOSTUNREACH"] += 1
    net.gate.dials_failed["Refused"] += 1
    assert set(shown(source_of(stage, net))) == before


def test_the_view_is_a_number_that_a_double_holds_and_two_views_are_two_numbers() -> None:
    one, same, other = Stage("a", "b"), Stage("a", "b"), Stage("a", "c")
    digests = [value(source_of(stage), "adsum_members_view_digest") for stage in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]
    assert digests[0] == one.core.membership.digest() % 2**DIGEST_BITS
    assert len({value(source_of(Stage(name)), "adsum_members_view_digest") for name in "abcdefghij"}) == 10


def test_accusers_accused_and_phi_are_told() -> None:
    stage = Stage("a", "b", "c")
    stage.tell("a", suspect("me", "a"))
    stage.run_for(90 * SECOND)  # nobody answers
    cluster = source_of(stage)
    assert value(cluster, "adsum_false_suspicions_total") == 1
    assert value(cluster, "adsum_probes_failed_total") >= 3
    assert value(cluster, "adsum_isolated") == 1
    assert value(cluster, "adsum_last_known_held") == 1
    assert value(cluster, "adsum_local_health_score") == stage.core.membership.condition.health_score > 0
    assert value(cluster, "adsum_probed_phi_count") >= 3
    assert value(cluster, "adsum_verdict_phi_bucket", le="+Inf") == value(
        cluster, "adsum_member_transitions_total", from_="suspect", to="failed", cause="silent"
    )


def test_packets_queues_and_drops_are_told_by_type_and_reason() -> None:
    stage, net = Stage("a"), NetSource(dropped_by_kernel=lambda: 4)
    stage.receive(Address("192.0.2.1", 1), b"junk")
    stage.command(FireEvent("deploy", b""))
    net.sealing.forged = 3
    net.datagrams.dropped_full = 2
    net.gate.dials_failed[Forged.__name__] += 5
    cluster = source_of(stage, net)
    dropped = "adsum_gossip_receive_dropped_total"
    assert value(cluster, dropped, reason="malformed_truncated") == 1
    assert value(cluster, dropped, reason="forged") == 3
    assert value(cluster, dropped, reason="buffer_full") == 4
    assert value(cluster, "adsum_gossip_send_dropped_total", reason="buffer_full") == 2
    assert value(cluster, "adsum_gossip_queue_entries", queue="events") == 1
    assert value(cluster, "adsum_stream_dials_failed_total", cause="bad_peer") == 5
    stage.run_for(SECOND)
    sent = stage.core.tally.packets_out
    assert value(cluster, "adsum_gossip_packets_total", direction="out", type="gossip") == sent[4] > 0


def test_failures_of_streams_have_all_their_names() -> None:
    direct = [each for each in NetError.__subclasses__() if each.__module__ == NetError.__module__]
    assert set(FAILURES.values()) == set(direct)


def test_consuls_names_count_the_same_things() -> None:
    stage = Stage("a", "b", "c")
    stage.tell("a", suspect("b", "a"), dead("b", "a"))
    stage.tell("b", alive("b", incarnation=1))
    cluster = source_of(stage)
    assert value(cluster, "consul_serf_member_join") == 4  # three were met, and one came back
    assert value(cluster, "consul_serf_member_failed") == 1
    assert value(cluster, "consul_serf_member_flap") == 1
    assert value(cluster, "consul_memberlist_msg_suspect") == 1
    assert value(cluster, "consul_memberlist_health_score") == 0
    answer = Exposition(cluster, Telemetry()).consul()
    gauges = answer["Gauges"]
    assert isinstance(gauges, list)
    assert {"Name": "consul.memberlist.health.score", "Value": 0, "Labels": {}} in gauges


def test_pauses_and_their_length_are_counted() -> None:
    stage = Stage("a")
    cluster = source_of(stage)
    for _ in range(2):
        stage.stand_still(30 * SECOND)
        stage.core.tick(stage.now)
    assert value(cluster, "adsum_pauses_total") == 2
    assert value(cluster, "adsum_paused_seconds_total") == 60
