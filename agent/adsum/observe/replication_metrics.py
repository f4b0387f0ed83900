"""The catalog of others: how much of it is here, how it came, and what went wrong.

None of it is by owner: `adsum catalog owners` lists them.
"""

from __future__ import annotations

from typing import get_args

from adsum.catalog.replication.state import OwnerState
from adsum.catalog.replication.tally import Drop
from adsum.logs.stale_reasons import REASONS
from adsum.now import SECOND
from adsum.observe.series import Reading, Sources, counter, gauge, table

DROPS: tuple[Drop, ...] = get_args(Drop)


def _stale(sources: Sources) -> Reading:
    reason = sources.cluster.staleness(sources.agent.now())
    return {each: int(each == reason) for each in REASONS}


def _heard(sources: Sources) -> list[OwnerState]:
    owners = sources.cluster.sharing.replication.owners().values()
    return [owner.state for owner in owners if owner.state is not None]


def _owners(sources: Sources) -> Reading:
    every, heard = len(sources.cluster.sharing.replication.owners()), _heard(sources)
    complete = sum(state.is_complete for state in heard)
    return {"complete": complete, "incomplete": len(heard) - complete, "unheard": every - len(heard)}


def _exchanges(sources: Sources) -> Reading:
    tally = sources.replication
    return {
        "begun": tally.exchanges_begun,
        "useful": tally.exchanges_useful,
        "failed": tally.exchanges_failed,
        "partner_busy": tally.exchanges_busy,
        "served": tally.exchanges_served,
        "refused": tally.exchanges_refused,
    }


def _pushes(sources: Sources) -> Reading:
    tally = sources.replication
    return {"sent": tally.pushes, "coalesced": tally.coalesced, "left_to_exchanges": tally.left_to_exchanges}


def _confirmations(sources: Sources) -> Reading:
    done, failed = sources.replication.confirmations, sources.replication.confirmations_failed
    return {"proved": done - failed, "failed": failed}


def _forwards(sources: Sources) -> Reading:
    counted = sources.agent.owners.counters
    done = counted.forwarded - counted.forward_failures
    return {"done": done, "failed": counted.forward_failures, "unseen": counted.unseen}


def _outputs(sources: Sources) -> Reading:
    counted, refused = sources.agent.outputs.counters, sources.agent.owners.mine.outputs_refused
    return {"asked": counted.asked, "failed": counted.failed, "kept": counted.kept, "refused": refused}


REPLICATION = table(
    "1 while what is answered about others may not be as things are, by the reason.",
    gauge("adsum_catalog_stale{reason}", _stale),
    "How old this agent's copy of others may be; 0 while it is as others have it.",
    gauge("adsum_catalog_behind_seconds", lambda s: s.cluster.behind_ns(s.agent.now()) / SECOND),
    "Owners of entries, by whether all that they published is here; unheard: nothing is yet.",
    gauge("adsum_replication_owners{state}", _owners),
    "Items of all owners held here: nodes, services, checks and what each says; those just removed too.",
    gauge("adsum_replication_items", lambda s: sum(len(state.items) for state in _heard(s))),
    "Their size as published.",
    gauge("adsum_replication_bytes", lambda s: sum(state.size_bytes for state in _heard(s))),
    "Changes of others that gossip brought, by whether they were new here.",
    counter(
        "adsum_replication_news_total{what}",
        lambda s: {"new": s.replication.news, "known": s.replication.known},
    ),
    "This agent's own changes: payloads given to gossip, changes that a later one overtook, and what "
    "exchanges bring because there was too much of it.",
    counter("adsum_replication_pushes_total{what}", _pushes),
    "This agent's own changes that no other agent hears of, by the limit they met; the log names each.",
    counter(
        "adsum_replication_unpublished_total{limit}",
        lambda s: {str(limit): count for limit, count in s.replication.unpublishable.items()},
    ),
    "Changes after which something of their owner was known to be missing.",
    counter("adsum_replication_gaps_total", lambda s: s.replication.gaps),
    "Owners replaced as a whole, as after their restart; incomplete: before all of it was here.",
    counter(
        "adsum_replication_swaps_total{how}",
        lambda s: {
            "complete": s.replication.swaps - s.replication.swaps_incomplete,
            "incomplete": s.replication.swaps_incomplete,
        },
    ),
    "Comparisons of the whole catalog with another agent, and how they went.",
    counter("adsum_replication_exchanges_total{what}", _exchanges),
    "Bytes sent in comparisons, as questions and as answers.",
    counter(
        "adsum_replication_exchange_bytes_total{what}",
        lambda s: {"questions": s.replication.asked_bytes, "answers": s.replication.answered_bytes},
    ),
    "Owners of which comparisons brought something here, or took something there.",
    counter(
        "adsum_replication_exchange_owners_total{way}",
        lambda s: {"fetched": s.replication.owners_fetched, "given": s.replication.owners_given},
    ),
    "Large items fetched after a notice.",
    counter(
        "adsum_replication_pulls_total{what}",
        lambda s: {
            "asked": s.replication.pulls,
            "failed": s.replication.pulls_failed,
            "refused": s.replication.pulls_refused,
        },
    ),
    "Rounds in which the copy was compared for requests with ?consistent.",
    counter("adsum_replication_confirmations_total{outcome}", _confirmations),
    "What came in and was not used, by the reason.",
    counter(
        "adsum_replication_dropped_total{reason}",
        lambda s: {str(reason): s.replication.dropped.get(reason, 0) for reason in DROPS},
    ),
    "Items of others that make no sense to this agent, and are not shown.",
    counter("adsum_replication_bad_items_total", lambda s: s.cluster.sharing.mirror.bad_items),
    "Owners found with one version and two contents: two agents share an identity.",
    counter("adsum_replication_equivocations_total", lambda s: s.replication.equivocations),
    "Owners forgotten, because they left or had failed for three days.",
    counter("adsum_replication_reaped_total", lambda s: s.replication.reaped),
    "Changes of other agents' entries that were asked for here; unseen: done, but not in our copy within "
    "a second.",
    counter("adsum_catalog_forwards_total{outcome}", _forwards),
    "Whole outputs for ?output=full: owners asked, and those that did not tell; outputs that were here "
    "still; questions of others refused because there were too many.",
    counter("adsum_check_outputs_total{what}", _outputs),
)
