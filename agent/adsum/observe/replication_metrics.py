"""The catalog of others: how much of it is here, how it came, and what went wrong.

None of it is by owner: `adsum catalog owners` lists them.
"""

from __future__ import annotations

from typing import get_args

from adsum.catalog.replication.tally import Drop
from adsum.logs.stale_reasons import REASONS
from adsum.now import SECOND
from adsum.observe.series import Reading, Series, Sources, counter, gauge

DROPS: tuple[Drop, ...] = get_args(Drop)


def _stale(sources: Sources) -> Reading:
    reason = sources.cluster.staleness(sources.agent.now())
    return {each: int(each == reason) for each in REASONS}


def _owners(sources: Sources) -> Reading:
    counts = {"complete": 0, "incomplete": 0, "unheard": 0}
    for owner in sources.cluster.sharing.replication.owners().values():
        if owner.state is None:
            counts["unheard"] += 1
        else:
            counts["complete" if owner.state.is_complete else "incomplete"] += 1
    return counts


def _items(sources: Sources) -> int:
    owners = sources.cluster.sharing.replication.owners().values()
    return sum(len(owner.state.items) for owner in owners if owner.state is not None)


def _size_bytes(sources: Sources) -> int:
    owners = sources.cluster.sharing.replication.owners().values()
    return sum(owner.state.size_bytes for owner in owners if owner.state is not None)


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


REPLICATION: tuple[Series, ...] = (
    gauge(
        "adsum_catalog_stale",
        "1 while what is answered about others may not be as things are, by the reason.",
        _stale,
        "reason",
    ),
    gauge(
        "adsum_catalog_behind_seconds",
        "How old this agent's copy of others may be; 0 while it is as others have it.",
        lambda s: s.cluster.behind_ns(s.agent.now()) / SECOND,
    ),
    gauge(
        "adsum_replication_owners",
        "Owners of entries, by whether all that they published is here; unheard: nothing is yet.",
        _owners,
        "state",
    ),
    gauge(
        "adsum_replication_items",
        "Items of all owners held here: nodes, services, checks and what each says; those just removed too.",
        _items,
    ),
    gauge("adsum_replication_bytes", "Their size as published.", _size_bytes),
    counter(
        "adsum_replication_news_total",
        "Changes of others that gossip brought, by whether they were new here.",
        lambda s: {"new": s.replication.news, "known": s.replication.known},
        "what",
    ),
    counter(
        "adsum_replication_pushes_total",
        "This agent's own changes: payloads given to gossip, changes that a later one overtook, and what "
        "exchanges bring because there was too much of it.",
        _pushes,
        "what",
    ),
    counter(
        "adsum_replication_unpublished_total",
        "This agent's own changes that no other agent hears of, by the limit they met; the log names each.",
        lambda s: {str(limit): count for limit, count in s.replication.unpublishable.items()},
        "limit",
    ),
    counter(
        "adsum_replication_gaps_total",
        "Changes after which something of their owner was known to be missing.",
        lambda s: s.replication.gaps,
    ),
    counter(
        "adsum_replication_swaps_total",
        "Owners replaced as a whole, as after their restart; incomplete: before all of it was here.",
        lambda s: {
            "complete": s.replication.swaps - s.replication.swaps_incomplete,
            "incomplete": s.replication.swaps_incomplete,
        },
        "how",
    ),
    counter(
        "adsum_replication_exchanges_total",
        "Comparisons of the whole catalog with another agent, and how they went.",
        _exchanges,
        "what",
    ),
    counter(
        "adsum_replication_exchange_bytes_total",
        "Bytes sent in comparisons, as questions and as answers.",
        lambda s: {"questions": s.replication.asked_bytes, "answers": s.replication.answered_bytes},
        "what",
    ),
    counter(
        "adsum_replication_exchange_owners_total",
        "Owners of which comparisons brought something here, or took something there.",
        lambda s: {"fetched": s.replication.owners_fetched, "given": s.replication.owners_given},
        "way",
    ),
    counter(
        "adsum_replication_pulls_total",
        "Large items fetched after a notice.",
        lambda s: {
            "asked": s.replication.pulls,
            "failed": s.replication.pulls_failed,
            "refused": s.replication.pulls_refused,
        },
        "what",
    ),
    counter(
        "adsum_replication_confirmations_total",
        "Rounds in which the copy was compared for requests with ?consistent.",
        _confirmations,
        "outcome",
    ),
    counter(
        "adsum_replication_dropped_total",
        "What came in and was not used, by the reason.",
        lambda s: {str(reason): s.replication.dropped.get(reason, 0) for reason in DROPS},
        "reason",
    ),
    counter(
        "adsum_replication_bad_items_total",
        "Items of others that make no sense to this agent, and are not shown.",
        lambda s: s.cluster.sharing.mirror.bad_items,
    ),
    counter(
        "adsum_replication_equivocations_total",
        "Owners found with one version and two contents: two agents share an identity.",
        lambda s: s.replication.equivocations,
    ),
    counter(
        "adsum_replication_reaped_total",
        "Owners forgotten, because they left or had failed for three days.",
        lambda s: s.replication.reaped,
    ),
    counter(
        "adsum_catalog_forwards_total",
        "Changes of other agents' entries that were asked for here; unseen: done, but not in our copy within "
        "a second.",
        _forwards,
        "outcome",
    ),
    counter(
        "adsum_check_outputs_total",
        "Whole outputs for ?output=full: owners asked, and those that did not tell; outputs that were here "
        "still; questions of others refused because there were too many.",
        _outputs,
        "what",
    ),
)
