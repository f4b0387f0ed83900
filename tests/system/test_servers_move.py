"""Servers that change their addresses, turn into clients and back, hand over, or lose their majority."""

from __future__ import annotations

import http.client
import json

from tests.system.agents import until
from tests.system.clusters import Loopback, Place
from tests.system.sites import (
    CHANGED_S_MAX,
    CONFIGURATION,
    ELECTED_S_MAX,
    assert_nothing_was_lost,
    joined,
    site,
)
from tests.system.test_servers_lost import CALL_S, Traffic


def test_all_addresses_change_at_once() -> None:
    with site(3) as made:
        with Traffic(made.client.agent, "a") as traffic:
            until(lambda: traffic.acknowledged > 10, within_s=CALL_S)
        for member in made.cluster.members:
            member.kill()
        moved: list[Place] = [
            Loopback(place.ports, f"127.0.0.{number}") for number, place in enumerate(made.places, 11)
        ]
        for member in made.cluster.members:
            config = {**member.agent.config, "retry_join": joined(moved)}
            if member is not made.client:
                config["bind_addr"] = moved[made.servers.index(member)].address
            member.restart(config)
        made.wait_for_voters("s1", "s2", "s3")
        with Traffic(made.client.agent, "b") as later:
            until(lambda: later.acknowledged > 10, within_s=CALL_S)
        assert later.acknowledged > 0
        assert_nothing_was_lost(made, traffic, made.servers)
        assert {peer["Address"].rpartition(":")[0] for peer in made.peers()} == {
            "127.0.0.11",
            "127.0.0.12",
            "127.0.0.13",
        }


def test_a_server_becomes_a_client_and_a_server_again_with_a_new_log() -> None:
    with site(3) as made:
        with Traffic(made.client.agent, "a") as traffic:
            turned = next(each for each in made.servers if each is not made.leader())
            as_server = turned.agent.config
            turned.stop()
            as_client = {**as_server, "server": False}
            del as_client["bootstrap_expect"]
            turned.restart(as_client)
            assert until(lambda: turned.ask("/v1/kv/a?raw"), within_s=ELECTED_S_MAX)
            assert "the log that it had as a server was set aside as" in turned.agent.log()
            turned.stop()
            turned.restart(as_server)
            assert until(lambda: turned.ask("/v1/kv/a?stale&raw"), within_s=CHANGED_S_MAX)
            made.wait_for_voters("s1", "s2", "s3")
        assert_nothing_was_lost(made, traffic, made.servers)


def test_a_leader_that_is_stopped_hands_leadership_over() -> None:
    with site(3) as made:
        leader = made.leader()
        with Traffic(made.client.agent, "a") as traffic:
            until(lambda: traffic.acknowledged > 10, within_s=CALL_S)
            leader.stop()
            reached = traffic.acknowledged + 10
            assert until(lambda: traffic.acknowledged > reached, within_s=CALL_S)
        assert "leadership is handed over to s" in leader.agent.log()
        assert_nothing_was_lost(made, traffic, [each for each in made.servers if each is not leader])


def test_without_a_majority_who_is_missing_is_said_and_status_and_stale_reads_work() -> None:
    with site(3) as made:
        assert made.client.put("/v1/kv/a")[0] == http.client.OK
        left = made.leader()  # it alone has heard both of the others
        others = [each for each in made.servers if each is not left]
        names = [peer["Node"] for peer in made.peers(left)]
        for member in others:
            member.kill()

        def sentence() -> str:
            connection = http.client.HTTPConnection("127.0.0.1", left.place.ports.http, timeout=CALL_S)
            connection.request("GET", CONFIGURATION)
            response = connection.getresponse()
            response.read()
            connection.close()
            return response.getheader("X-Adsum-Reason", "")

        assert until(lambda: sentence().startswith("2 of 3 voters are missing: "), within_s=CALL_S), (
            sentence()
        )
        assert sentence().count(" (since 20") == 2
        assert "start them again" in sentence()
        assert json.loads(left.ask("/v1/status/leader")) == ""
        assert len(json.loads(left.ask("/v1/status/peers"))) >= 1
        assert [peer["Node"] for peer in made.peers(left)] == names
        assert left.ask("/v1/kv/a?stale&raw") == b""
        assert json.loads(left.ask("/v1/kv/a?stale"))[0]["Key"] == "a"
