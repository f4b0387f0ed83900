"""What goes between agents, and what of it was not let in or did not get out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from adsum.gossip.tally import Drop
from adsum.net.errors import (
    BadPeer,
    Lost,
    NetError,
    NoRoomForPeer,
    PeerRefused,
    PeerUnreachable,
    TimedOut,
    TurnedAway,
    Untried,
    Unwelcome,
)
from adsum.net.unread import REASONS as UNREAD_REASONS
from adsum.observe.series import Labelled, Reading, Sources, counter, gauge, table

REASONS: tuple[Drop, ...] = get_args(Drop)
FAILURES: Mapping[str, type[NetError]] = {
    "refused": PeerRefused,
    "unreachable": PeerUnreachable,
    "timed_out": TimedOut,
    "lost": Lost,
    "turned_away": TurnedAway,
    "unwelcome": Unwelcome,
    "bad_peer": BadPeer,
    "no_room": NoRoomForPeer,
    "untried": Untried,
}


def _received_drops(sources: Sources) -> Reading:
    net, dropped = sources.net, sources.tally.dropped
    sealing = net.sealing
    return {
        **{reason.replace(" ", "_"): dropped.get(reason, 0) for reason in REASONS},
        "buffer_full": net.dropped_by_kernel(),
        "not_allowed": net.allowed.refused,
        "oversized": net.datagrams.received_oversized,
        "error": net.datagrams.receive_errors,
        "truncated": sealing.truncated,
        "other_version": sealing.other_version,
        "unknown_key": sealing.unknown_key,
        "forged": sealing.forged,
        "damaged": sealing.damaged,
        "plain_refused": sealing.plain_refused,
        "replayed": sealing.replayed,
        "reflected": sealing.reflected,
        "stale_life": sealing.stale_generation,
    }


def _sent_drops(sources: Sources) -> Reading:
    datagrams = sources.net.datagrams
    return {
        "buffer_full": datagrams.dropped_full,
        "oversized": datagrams.dropped_oversized,
        "bad_address": datagrams.dropped_bad_address,
        "error": datagrams.send_errors.total(),
    }


def _unreachable(sources: Sources) -> Reading:
    told = sources.net.datagrams.unreachable
    refused = told["ECONNREFUSED"]
    return {"port": refused, "other": told.total() - refused}


def _datagrams(sources: Sources) -> Labelled:
    sealing = sources.net.sealing
    return {
        ("in", "sealed"): sealing.opened,
        ("in", "plain"): sealing.opened_plain,
        ("out", "sealed"): sealing.sent_sealed,
        ("out", "plain"): sealing.sent_plain,
    }


def _failures(counted: Mapping[str, int]) -> Reading:
    """Classes that are special cases of one of these are counted by their own names, as that one."""
    return {
        cause: sum(counted.get(each.__name__, 0) for each in (error, *error.__subclasses__()))
        for cause, error in FAILURES.items()
    }


NET = table(
    "Gossip's datagrams let in and sent, by direction and by whether they were sealed with a key.",
    counter("adsum_gossip_datagrams_total{direction,form}", _datagrams),
    "Bytes of all datagrams that came to gossip's port.",
    counter("adsum_gossip_received_bytes_total", lambda s: s.net.datagrams.received_bytes),
    "Bytes of gossip's datagrams as they left.",
    counter("adsum_gossip_sent_bytes_total", lambda s: s.net.datagrams.sent_bytes),
    "What came to gossip's port and was not used, by reason.",
    counter("adsum_gossip_receive_dropped_total{reason}", _received_drops),
    "Gossip's datagrams that did not leave, by reason.",
    counter("adsum_gossip_send_dropped_total{reason}", _sent_drops),
    "Datagrams that came back with an ICMP error: nobody listens on the port, or another.",
    counter("adsum_gossip_undeliverable_total{error}", _unreachable),
    "Times that more datagrams waited than are read at once.",
    counter("adsum_gossip_drains_full_total", lambda s: s.net.datagrams.drains_full),
    "Senders whose counters were forgotten to make room for others.",
    counter("adsum_gossip_lives_evicted_total", lambda s: s.net.sealing.generations_evicted),
    # Streams.
    "Streams from other agents open now.",
    gauge("adsum_streams_open", lambda s: s.net.streams.open),
    "Streams from other agents turned away, because too many were open.",
    counter("adsum_streams_turned_away_total", lambda s: s.net.streams.turned_away),
    "Streams from other agents told to come later, because as many did the same as may at once.",
    counter("adsum_streams_busy_total", lambda s: s.net.streams.busy + s.net.streams.syncs.turned_away),
    "Streams to this agent whose other end has not said yet who it is, or has not begun its exchange.",
    gauge("adsum_streams_opening", lambda s: s.net.streams.openings.held),
    "Streams whose other end did not say who it is, or what it asks, closed to make room for others.",
    counter("adsum_streams_displaced_total", lambda s: s.net.streams.openings.displaced),
    "Exchanges of rosters that others began and that are being answered.",
    gauge("adsum_stream_syncs_open", lambda s: s.net.streams.syncs.held),
    "Exchanges of rosters that stood idle, closed to make room for others.",
    counter("adsum_stream_syncs_displaced_total", lambda s: s.net.streams.syncs.displaced),
    "Bytes held of frames and rosters that have not come whole, and of questions in hand.",
    gauge("adsum_stream_unread_bytes", lambda s: s.net.unread.held_bytes),
    "Streams cut off over what was sent: more than is held for all or for one host, or too long at once.",
    counter(
        "adsum_stream_unread_refused_total{reason}",
        lambda s: {reason: s.net.unread.refused[reason] for reason in UNREAD_REASONS},
    ),
    "Streams between agents, by who opened them.",
    counter(
        "adsum_streams_total{direction}", lambda s: {"in": s.net.gate.welcomed, "out": s.net.gate.dialled}
    ),
    "Streams that could not be opened to other agents, by cause.",
    counter("adsum_stream_dials_failed_total{cause}", lambda s: _failures(s.net.gate.dials_failed)),
    "Streams from other agents, or whoever that was, that were not let in, by cause.",
    counter("adsum_stream_welcomes_failed_total{cause}", lambda s: _failures(s.net.gate.welcomes_failed)),
    "Pings answered over a stream.",
    counter("adsum_stream_pings_answered_total", lambda s: s.net.streams.pings_answered),
    "Streams that the system did not hand over, mostly for want of files.",
    counter("adsum_stream_accept_errors_total", lambda s: s.net.streams.accepting.errors),
    "Streams to other agents not opened, because too many were open, by what for.",
    counter(
        "adsum_streams_skipped_total{purpose}",
        lambda s: {"ping": s.net.gossiping.pings_skipped, "sync": s.net.gossiping.syncs_skipped},
    ),
    # Calls.
    "Calls to other agents that had to wait, because as many as may be were under way.",
    counter("adsum_calls_waited_total", lambda s: s.rpc.waited),
    "Calls from other agents that are being answered.",
    gauge("adsum_calls_in_flight", lambda s: s.rpc.server.counters.in_flight),
    "Calls from other agents, by how they ended.",
    counter(
        "adsum_calls_total{result}",
        lambda s: {
            "answered": s.rpc.server.counters.answered,
            "declined": s.rpc.server.counters.declined,
            "busy": s.rpc.server.counters.busy,
            "overdue": s.rpc.server.counters.overdue,
            "cancelled": s.rpc.server.counters.cancelled,
            "fault": s.rpc.server.counters.faults,
        },
    ),
)
