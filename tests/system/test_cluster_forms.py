"""Fifty agents find each other, from nothing and from what they wrote down."""

from __future__ import annotations

import time

from tests.system.agents import adsum_program
from tests.system.clusters import Cluster, gathered, loopbacks

AGENTS = 50
ONE_VIEW_S_MAX = 10.0


def test_fifty_agents_form_one_view_and_again_after_all_were_killed() -> None:
    places = loopbacks(AGENTS)
    started = time.monotonic()
    with gathered(adsum_program(), places) as cluster:
        cluster.wait_for_one_view()
        assert time.monotonic() - started <= ONE_VIEW_S_MAX
        for member in cluster.members:
            member.kill()
        assert one_view_without_being_told_of_others_s(cluster) <= ONE_VIEW_S_MAX


def one_view_without_being_told_of_others_s(cluster: Cluster) -> float:
    """Nobody is named a member to join: each has only what it keeps in its data folder."""
    started = time.monotonic()
    for member in cluster.members:
        config = {key: value for key, value in member.agent.config.items() if key != "retry_join"}
        member.restart(config)
    cluster.wait_for_one_view()
    return time.monotonic() - started
