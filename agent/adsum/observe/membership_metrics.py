"""What is told about the membership: who is present, why the others are not, and how well it can know.

None of it is by member: a thousand agents that each count a thousand others are a million series, and
`adsum members`, `adsum timeline` and `adsum explain` say more about each.
"""

from __future__ import annotations

from dataclasses import asdict

from adsum.buckets import Buckets
from adsum.gossip.broadcasts import Class
from adsum.gossip.membership_view import MembershipView
from adsum.gossip.order import MemberStatus
from adsum.gossip.tally import TRANSITIONS
from adsum.gossip.wire import PacketKind
from adsum.now import SECOND
from adsum.observe.series import HistogramReading, Labelled, Sources, counter, gauge, histogram, table

DIGEST_BITS = 53  # Prometheus' numbers are doubles: beyond, two views would look like one


def members(membership: MembershipView) -> dict[MemberStatus, int]:
    """As `adsum members` lists them: with this agent, and without those who were pruned."""
    counts = membership.counts()
    counts[membership.own_standing.status] += 1
    return counts


def _transitions(sources: Sources) -> Labelled:
    return {each: sources.tally.transitions.get(each, 0) for each in TRANSITIONS}


def _histogram(buckets: Buckets) -> HistogramReading:
    return HistogramReading(buckets.edges, tuple(buckets.counts), buckets.total)


def _by_type(received: list[int], sent: list[int]) -> Labelled:
    return {
        (direction, kind.name.lower()): counts[kind]
        for direction, counts in (("in", received), ("out", sent))
        for kind in PacketKind
    }


MEMBERSHIP = table(
    "Members by state, this agent among them.",
    gauge(
        "adsum_members{state}",
        lambda s: {status.value: count for status, count in members(s.membership).items()},
    ),
    "53 bits of a digest of all members and their states: equal on agents that see the same.",
    gauge("adsum_members_view_digest", lambda s: s.membership.digest() & (1 << DIGEST_BITS) - 1),
    "Changes of members' states, by what they were and became, and why.",
    counter("adsum_member_transitions_total{from,to,cause}", _transitions),
    "Members that were back within a minute of being called failed.",
    counter("adsum_member_flaps_total", lambda s: s.tally.flaps),
    "Agents that no member introduced: let in because they answered a ping, or forgotten because not.",
    counter(
        "adsum_newcomers_total{outcome}",
        lambda s: {"answered": s.tally.newcomers_answered, "silent": s.tally.newcomers_silent},
    ),
    "User events that came here: listed, for others, or of a form that this version cannot read.",
    counter("adsum_user_events_total{outcome}", lambda s: asdict(s.cluster.events.counters)),
    "Times that two members claimed one name or one id.",
    counter("adsum_member_conflicts_total", lambda s: s.tally.conflicts),
    # Suspicion.
    "Members that this agent was the first to accuse here, its own probe having failed.",
    counter("adsum_suspicions_raised_total", lambda s: s.tally.suspicions_raised),
    "Further accusers heard of in open suspicions.",
    counter("adsum_suspicions_confirmed_total", lambda s: s.tally.suspicions_confirmed),
    "Suspicions that ended because the suspect answered.",
    counter("adsum_suspicions_refuted_total", lambda s: s.tally.suspicions_refuted),
    "Accusations not made, or not carried out as refused, because a newer heartbeat counter arrived.",
    counter("adsum_suspicions_vetoed_total", lambda s: s.tally.vetoes),
    "Accusations that this agent kept to itself, because it has reason to doubt its own network.",
    counter("adsum_suspicions_withheld_total", lambda s: s.tally.withheld),
    "Suspicions in which the silence of the suspect's own counter was one more witness.",
    counter("adsum_suspicions_witnessed_total", lambda s: s.tally.witnesses),
    "Accusations of this agent itself, which it refuted.",
    counter("adsum_false_suspicions_total", lambda s: s.tally.suspicions_of_me),
    "From a suspicion to the verdict that the member failed.",
    histogram("adsum_suspicion_verdict_seconds", lambda s: _histogram(s.tally.detection_s)),
    "How surprising the silence was when this agent called a member failed: 3 is one in a thousand.",
    histogram("adsum_verdict_phi", lambda s: _histogram(s.tally.phi)),
    "How surprising the age of its counter is, of each member when its turn to be probed comes.",
    histogram("adsum_probed_phi", lambda s: _histogram(s.tally.probed_phi)),
    # Probing.
    "Members asked whether they are alive.",
    counter("adsum_probes_total", lambda s: s.tally.probes),
    "Probes that no way was answered by, nor refused by the member's host.",
    counter("adsum_probes_failed_total", lambda s: s.tally.probes_failed),
    "Probes begun at once because a datagram came back as undeliverable.",
    counter("adsum_probes_out_of_turn_total", lambda s: s.tally.probes_out_of_turn),
    "Probes out of turn not begun, because too many were under way; or detours not run for others.",
    counter(
        "adsum_probes_refused_total{what}",
        lambda s: {"out_of_turn": s.tally.probes_refused, "for_others": s.tally.relays_refused},
    ),
    "Members that are alive and that the direct datagram did not reach.",
    counter("adsum_paths_asymmetric_total", lambda s: s.tally.asymmetric_paths),
    "Round trips of direct probes.",
    histogram("adsum_probe_rtt_seconds", lambda s: _histogram(s.tally.rtt_s)),
    # This agent's own state.
    "How much this agent doubts itself: 0 is well, 7 the worst; all its timeouts grow with it.",
    gauge("adsum_local_health_score", lambda s: s.membership.condition.health_score),
    "Times that the local health got worse.",
    counter("adsum_local_health_lows_total", lambda s: s.membership.condition.health_lows),
    "1 while this agent reaches less than half of the members it tries.",
    gauge("adsum_isolated", lambda s: int(s.membership.condition.is_isolated)),
    "1 while members that went silent are still answered for, because the fault may be ours.",
    gauge("adsum_last_known_held", lambda s: int(s.membership.holds_last_known(s.agent.now()))),
    "Times that this agent stopped accusing, having been refuted again and again.",
    counter("adsum_mutes_total", lambda s: s.membership.condition.mutes),
    "Times that this agent stood still: suspended, stopped, or starved of processor time.",
    counter("adsum_pauses_total", lambda s: s.membership.condition.pauses),
    "How long this agent stood still, all those times together.",
    counter("adsum_paused_seconds_total", lambda s: s.membership.condition.paused_ns / SECOND),
    "How far this host's clock is ahead of most members'; negative when it is behind.",
    gauge("adsum_clock_offset_seconds", lambda s: s.membership.clocks.ahead_ms(s.agent.now()) / 1_000),
    # Gossip.
    "Gossip's datagrams, by direction and type.",
    counter(
        "adsum_gossip_packets_total{direction,type}",
        lambda s: _by_type(s.tally.packets_in, s.tally.packets_out),
    ),
    "Bytes of gossip's datagrams before sealing, by direction and type.",
    counter(
        "adsum_gossip_bytes_total{direction,type}", lambda s: _by_type(s.tally.bytes_in, s.tally.bytes_out)
    ),
    "News about members, and events, when first heard here, by what brought it.",
    counter(
        "adsum_gossip_news_total{way}",
        lambda s: {"datagram": s.tally.news_by_datagram, "sync": s.tally.news_by_sync},
    ),
    "How old news was when first heard here, as far as that is known.",
    histogram("adsum_gossip_news_age_seconds", lambda s: _histogram(s.tally.news_age_s)),
    "News that waits to be told, by kind.",
    gauge(
        "adsum_gossip_queue_entries{queue}",
        lambda s: {each.value: s.membership.queue(each).waiting for each in Class},
    ),
    "News dropped before it was told often enough, because its queue was full.",
    counter(
        "adsum_gossip_queue_dropped_total{queue}",
        lambda s: {each.value: s.membership.queue(each).dropped for each in Class},
    ),
    "Datagrams with news that went out at once, without waiting for the next gossip.",
    counter("adsum_gossip_pushes_total", lambda s: s.tally.pushes),
    "Times that news had to wait for a push, because others had used up what pushes may cost.",
    counter("adsum_gossip_pushes_put_off_total", lambda s: s.tally.pushes_put_off),
    "News that others named and this agent lacked and asked for, or did not, having asked for much; what it "
    "gave to others, and refused them.",
    counter(
        "adsum_gossip_news_requests_total{side}",
        lambda s: {
            "asked": s.tally.news_asked_for,
            "not_asked": s.tally.news_not_asked_for,
            "answered": s.tally.news_answered,
            "refused": s.tally.answers_refused,
        },
    ),
    "Old news that was not set right at once, the answer being full.",
    counter("adsum_gossip_answers_cut_total", lambda s: s.tally.answers_cut),
    "Comparisons of whole rosters, by who began them.",
    counter(
        "adsum_gossip_syncs_total{side}",
        lambda s: {"opened": s.tally.syncs_opened, "served": s.tally.syncs_served},
    ),
    "Comparisons begun here that found nothing to tell.",
    counter("adsum_gossip_syncs_equal_total", lambda s: s.tally.syncs_equal),
    "Comparisons begun before their time, because the digests of others differed.",
    counter("adsum_gossip_syncs_for_repair_total", lambda s: s.tally.syncs_for_repair),
    "Comparisons that did not take place: the peer did not answer, or one of the two was too busy.",
    counter(
        "adsum_gossip_syncs_failed_total{cause}",
        lambda s: {"no_answer": s.tally.syncs_failed, "busy": s.tally.syncs_busy},
    ),
)
