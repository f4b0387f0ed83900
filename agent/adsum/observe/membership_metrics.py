"""What is told about the membership: who is present, why the others are not, and how well it can know.

None of it is by member: a thousand agents that each count a thousand others are a million series, and
`adsum members`, `adsum timeline` and `adsum explain` say more about each.
"""

from __future__ import annotations

from dataclasses import asdict

from adsum.gossip.broadcasts import Class
from adsum.gossip.membership_view import MembershipView
from adsum.gossip.order import MemberStatus
from adsum.gossip.tally import TRANSITIONS, Buckets
from adsum.gossip.wire import PacketKind
from adsum.now import SECOND
from adsum.observe.series import HistogramReading, Labelled, Series, Sources, counter, gauge, histogram

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


MEMBERSHIP: tuple[Series, ...] = (
    gauge(
        "adsum_members",
        "Members by state, this agent among them.",
        lambda s: {status.value: count for status, count in members(s.membership).items()},
        "state",
    ),
    gauge(
        "adsum_members_view_digest",
        "53 bits of a digest of all members and their states: equal on agents that see the same.",
        lambda s: s.membership.digest() & (1 << DIGEST_BITS) - 1,
    ),
    counter(
        "adsum_member_transitions_total",
        "Changes of members' states, by what they were and became, and why.",
        _transitions,
        "from",
        "to",
        "cause",
    ),
    counter(
        "adsum_member_flaps_total",
        "Members that were back within a minute of being called failed.",
        lambda s: s.tally.flaps,
    ),
    counter(
        "adsum_newcomers_total",
        "Agents that no member introduced: let in because they answered a ping, or forgotten because not.",
        lambda s: {"answered": s.tally.newcomers_answered, "silent": s.tally.newcomers_silent},
        "outcome",
    ),
    counter(
        "adsum_user_events_total",
        "User events that came here: listed, for others, or of a form that this version cannot read.",
        lambda s: asdict(s.cluster.events.counters),
        "outcome",
    ),
    counter(
        "adsum_member_conflicts_total",
        "Times that two members claimed one name or one id.",
        lambda s: s.tally.conflicts,
    ),
    # Suspicion.
    counter(
        "adsum_suspicions_raised_total",
        "Members that this agent was the first to accuse here, its own probe having failed.",
        lambda s: s.tally.suspicions_raised,
    ),
    counter(
        "adsum_suspicions_confirmed_total",
        "Further accusers heard of in open suspicions.",
        lambda s: s.tally.suspicions_confirmed,
    ),
    counter(
        "adsum_suspicions_refuted_total",
        "Suspicions that ended because the suspect answered.",
        lambda s: s.tally.suspicions_refuted,
    ),
    counter(
        "adsum_suspicions_vetoed_total",
        "Accusations not made, or not carried out as refused, because a newer heartbeat counter arrived.",
        lambda s: s.tally.vetoes,
    ),
    counter(
        "adsum_suspicions_withheld_total",
        "Accusations that this agent kept to itself, because it has reason to doubt its own network.",
        lambda s: s.tally.withheld,
    ),
    counter(
        "adsum_suspicions_witnessed_total",
        "Suspicions in which the silence of the suspect's own counter was one more witness.",
        lambda s: s.tally.witnesses,
    ),
    counter(
        "adsum_false_suspicions_total",
        "Accusations of this agent itself, which it refuted.",
        lambda s: s.tally.suspicions_of_me,
    ),
    histogram(
        "adsum_suspicion_verdict_seconds",
        "From a suspicion to the verdict that the member failed.",
        lambda s: _histogram(s.tally.detection_s),
    ),
    histogram(
        "adsum_verdict_phi",
        "How surprising the silence was when this agent called a member failed: 3 is one in a thousand.",
        lambda s: _histogram(s.tally.phi),
    ),
    histogram(
        "adsum_probed_phi",
        "How surprising the age of its counter is, of each member when its turn to be probed comes.",
        lambda s: _histogram(s.tally.probed_phi),
    ),
    # Probing.
    counter("adsum_probes_total", "Members asked whether they are alive.", lambda s: s.tally.probes),
    counter(
        "adsum_probes_failed_total",
        "Probes that no way was answered by, nor refused by the member's host.",
        lambda s: s.tally.probes_failed,
    ),
    counter(
        "adsum_probes_out_of_turn_total",
        "Probes begun at once because a datagram came back as undeliverable.",
        lambda s: s.tally.probes_out_of_turn,
    ),
    counter(
        "adsum_probes_refused_total",
        "Probes out of turn not begun, because too many were under way; or detours not run for others.",
        lambda s: {"out_of_turn": s.tally.probes_refused, "for_others": s.tally.relays_refused},
        "what",
    ),
    counter(
        "adsum_paths_asymmetric_total",
        "Members that are alive and that the direct datagram did not reach.",
        lambda s: s.tally.asymmetric_paths,
    ),
    histogram(
        "adsum_probe_rtt_seconds", "Round trips of direct probes.", lambda s: _histogram(s.tally.rtt_s)
    ),
    # This agent's own state.
    gauge(
        "adsum_local_health_score",
        "How much this agent doubts itself: 0 is well, 7 the worst; all its timeouts grow with it.",
        lambda s: s.membership.condition.health_score,
    ),
    counter(
        "adsum_local_health_lows_total",
        "Times that the local health got worse.",
        lambda s: s.membership.condition.health_lows,
    ),
    gauge(
        "adsum_isolated",
        "1 while this agent reaches less than half of the members it tries.",
        lambda s: int(s.membership.condition.is_isolated),
    ),
    gauge(
        "adsum_last_known_held",
        "1 while members that went silent are still answered for, because the fault may be ours.",
        lambda s: int(s.membership.holds_last_known(s.agent.now())),
    ),
    counter(
        "adsum_mutes_total",
        "Times that this agent stopped accusing, having been refuted again and again.",
        lambda s: s.membership.condition.mutes,
    ),
    counter(
        "adsum_pauses_total",
        "Times that this agent stood still: suspended, stopped, or starved of processor time.",
        lambda s: s.membership.condition.pauses,
    ),
    counter(
        "adsum_paused_seconds_total",
        "How long this agent stood still, all those times together.",
        lambda s: s.membership.condition.paused_ns / SECOND,
    ),
    gauge(
        "adsum_clock_offset_seconds",
        "How far this host's clock is ahead of most members'; negative when it is behind.",
        lambda s: s.membership.clocks.ahead_ms(s.agent.now()) / 1_000,
    ),
    # Gossip.
    counter(
        "adsum_gossip_packets_total",
        "Gossip's datagrams, by direction and type.",
        lambda s: _by_type(s.tally.packets_in, s.tally.packets_out),
        "direction",
        "type",
    ),
    counter(
        "adsum_gossip_bytes_total",
        "Bytes of gossip's datagrams before sealing, by direction and type.",
        lambda s: _by_type(s.tally.bytes_in, s.tally.bytes_out),
        "direction",
        "type",
    ),
    counter(
        "adsum_gossip_news_total",
        "News about members, and events, when first heard here, by what brought it.",
        lambda s: {"datagram": s.tally.news_by_datagram, "sync": s.tally.news_by_sync},
        "way",
    ),
    histogram(
        "adsum_gossip_news_age_seconds",
        "How old news was when first heard here, as far as that is known.",
        lambda s: _histogram(s.tally.news_age_s),
    ),
    gauge(
        "adsum_gossip_queue_entries",
        "News that waits to be told, by kind.",
        lambda s: {each.value: s.membership.queue(each).waiting for each in Class},
        "queue",
    ),
    counter(
        "adsum_gossip_queue_dropped_total",
        "News dropped before it was told often enough, because its queue was full.",
        lambda s: {each.value: s.membership.queue(each).dropped for each in Class},
        "queue",
    ),
    counter(
        "adsum_gossip_answers_cut_total",
        "Old news that was not set right at once, the answer being full.",
        lambda s: s.tally.answers_cut,
    ),
    counter(
        "adsum_gossip_syncs_total",
        "Comparisons of whole rosters, by who began them.",
        lambda s: {"opened": s.tally.syncs_opened, "served": s.tally.syncs_served},
        "side",
    ),
    counter(
        "adsum_gossip_syncs_equal_total",
        "Comparisons begun here that found nothing to tell.",
        lambda s: s.tally.syncs_equal,
    ),
    counter(
        "adsum_gossip_syncs_for_repair_total",
        "Comparisons begun before their time, because the digests of others differed.",
        lambda s: s.tally.syncs_for_repair,
    ),
    counter(
        "adsum_gossip_syncs_failed_total",
        "Comparisons that did not take place: the peer did not answer, or one of the two was too busy.",
        lambda s: {"no_answer": s.tally.syncs_failed, "busy": s.tally.syncs_busy},
        "cause",
    ),
)
