"""The rows of the metrics table about replication, see `replication`."""

from __future__ import annotations

from adsum.observe.series import Labelled, Series, Sources, by_one, counter, gauge


def _news(sources: Sources) -> Labelled:
    tally = sources.replication.tally
    return by_one({"new": tally.news, "known": tally.known})


def _exchanges(sources: Sources) -> Labelled:
    tally = sources.replication.tally
    return by_one(
        {
            "begun": tally.exchanges_begun,
            "useful": tally.exchanges_useful,
            "failed": tally.exchanges_failed,
            "partner_busy": tally.exchanges_busy,
            "served": tally.exchanges_served,
            "refused": tally.exchanges_refused,
        }
    )


def _pushes(sources: Sources) -> Labelled:
    tally = sources.replication.tally
    return by_one(
        {"sent": tally.pushes, "coalesced": tally.coalesced, "left_to_exchanges": tally.left_to_exchanges}
    )


def _pulls(sources: Sources) -> Labelled:
    tally = sources.replication.tally
    return by_one({"asked": tally.pulls, "failed": tally.pulls_failed, "refused": tally.pulls_refused})


def _confirmations(sources: Sources) -> Labelled:
    tally = sources.replication.tally
    return by_one(
        {
            "proved": tally.confirmations - tally.confirmations_failed,
            "failed": tally.confirmations_failed,
        }
    )


def _forwards(sources: Sources) -> Labelled:
    counted = sources.replication.forwards
    return by_one(
        {
            "done": counted.forwarded - counted.forward_failures,
            "failed": counted.forward_failures,
            "unseen": counted.unseen,
        }
    )


def _outputs(sources: Sources) -> Labelled:
    counted = sources.replication.outputs
    return by_one(
        {
            "asked": counted.asked,
            "failed": counted.failed,
            "kept": counted.kept,
            "refused": sources.replication.outputs_refused(),
        }
    )


REPLICATION: tuple[Series, ...] = (
    gauge(
        "adsum_catalog_stale",
        "1 while what is answered about others may not be as things are, by the reason.",
        lambda s: by_one(s.replication.stale()),
        "reason",
    ),
    gauge(
        "adsum_catalog_behind_seconds",
        "How old this agent's copy of others may be; 0 while it is as others have it.",
        lambda s: s.replication.behind_s(),
    ),
    gauge(
        "adsum_replication_owners",
        "Owners of entries, by whether all that they published is here; unheard: nothing is yet.",
        lambda s: by_one(s.replication.owners_by_state()),
        "state",
    ),
    gauge(
        "adsum_replication_items",
        "Items of all owners held here: nodes, services, checks and what each says; those just removed too.",
        lambda s: s.replication.items(),
    ),
    gauge("adsum_replication_bytes", "Their size as published.", lambda s: s.replication.size_bytes()),
    counter(
        "adsum_replication_news_total",
        "Changes of others that gossip brought, by whether they were new here.",
        _news,
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
        lambda s: by_one({str(limit): count for limit, count in s.replication.tally.unpublishable.items()}),
        "limit",
    ),
    counter(
        "adsum_replication_gaps_total",
        "Changes after which something of their owner was known to be missing.",
        lambda s: s.replication.tally.gaps,
    ),
    counter(
        "adsum_replication_swaps_total",
        "Owners replaced as a whole, as after their restart; incomplete: before all of it was here.",
        lambda s: by_one(
            {
                "complete": s.replication.tally.swaps - s.replication.tally.swaps_incomplete,
                "incomplete": s.replication.tally.swaps_incomplete,
            }
        ),
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
        lambda s: by_one(
            {"questions": s.replication.tally.asked_bytes, "answers": s.replication.tally.answered_bytes}
        ),
        "what",
    ),
    counter(
        "adsum_replication_exchange_owners_total",
        "Owners of which comparisons brought something here, or took something there.",
        lambda s: by_one(
            {"fetched": s.replication.tally.owners_fetched, "given": s.replication.tally.owners_given}
        ),
        "way",
    ),
    counter(
        "adsum_replication_pulls_total",
        "Large items fetched after a notice.",
        _pulls,
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
        lambda s: by_one(s.replication.drops()),
        "reason",
    ),
    counter(
        "adsum_replication_bad_items_total",
        "Items of others that make no sense to this agent, and are not shown.",
        lambda s: s.replication.bad_items(),
    ),
    counter(
        "adsum_replication_equivocations_total",
        "Owners found with one version and two contents: two agents share an identity.",
        lambda s: s.replication.tally.equivocations,
    ),
    counter(
        "adsum_replication_reaped_total",
        "Owners forgotten, because they left or had failed for three days.",
        lambda s: s.replication.tally.reaped,
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
