from __future__ import annotations

import time

from adsum.config.config import Gossip
from adsum.gossip.settings import GossipSettings, SuspicionMode
from adsum.now import HOUR, MILLISECOND, SECOND
from adsum.process.gossip_settings import RELEASED_WALL_MS, gossip_settings


def test_a_configuration_without_a_word_about_gossip_gives_its_own_defaults() -> None:
    assert gossip_settings(Gossip()) == GossipSettings(build_wall_ms=RELEASED_WALL_MS)


def test_every_setting_arrives_under_its_name() -> None:
    gossip = Gossip(
        mode="adaptive",
        refused_grace_ns=1,
        push_nodes=9,
        probe_interval_ns=2 * SECOND,
        probe_timeout_ns=3 * MILLISECOND,
        gossip_interval_ns=4,
        gossip_nodes=5,
        retransmit_mult=6,
        suspicion_mult=7,
        reconnect_timeout_ns=8 * HOUR,
    )
    assert gossip_settings(gossip) == GossipSettings(
        mode=SuspicionMode.ADAPTIVE,
        refused_grace_ns=1,
        push_nodes=9,
        probe_interval_ns=2 * SECOND,
        probe_timeout_ns=3 * MILLISECOND,
        gossip_interval_ns=4,
        gossip_nodes=5,
        retransmit_mult=6,
        suspicion_mult=7,
        reconnect_timeout_ns=8 * HOUR,
        build_wall_ms=RELEASED_WALL_MS,
    )


def test_the_day_of_release_is_not_in_the_future() -> None:
    assert time.time() * 1000 > RELEASED_WALL_MS
