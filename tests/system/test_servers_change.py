"""Servers that come, go and are replaced, while somebody writes through a client agent."""

from __future__ import annotations

import http.client
import json
from functools import partial

from tests.system.agents import until
from tests.system.clusters import Member, loopbacks
from tests.system.sites import CHANGED_S_MAX, ELECTED_S_MAX, assert_nothing_was_lost, site
from tests.system.test_servers_lost import Traffic

FAILED = 4  # in Serf's numbers


def ended(member: Member) -> bool:
    return member.agent.process.poll() is not None


def test_one_server_becomes_five_and_then_three_under_writes() -> None:
    with site(1) as made:
        more = loopbacks(4)
        with Traffic(made.client.agent, "a") as traffic:
            for number, place in enumerate(more[:2], 2):
                made.add_server(f"s{number}", place)
            made.wait_for_voters("s1", "s2", "s3")
            for number, place in enumerate(more[2:], 4):
                made.add_server(f"s{number}", place)
            made.wait_for_voters("s1", "s2", "s3", "s4", "s5")
            first, leaving = made.servers[0], made.servers[1]
            for member, left in ((first, ("s2", "s3", "s4", "s5")), (leaving, ("s3", "s4", "s5"))):
                assert member.put("/v1/agent/leave")[0] == http.client.OK
                assert until(partial(ended, member), within_s=ELECTED_S_MAX)
                made.wait_for_voters(*left)
        assert_nothing_was_lost(made, traffic, made.servers[2:])


def test_a_dead_server_is_replaced_under_another_name_and_address() -> None:
    with site(3) as made:
        with Traffic(made.client.agent, "a") as traffic:
            dead = made.servers[0]
            dead.kill()
            [place] = loopbacks(1)
            made.add_server("s4", place)
            made.wait_for_voters("s2", "s3", "s4")
        assert_nothing_was_lost(made, traffic, made.servers[1:])


def test_a_dead_server_is_replaced_under_its_name_and_address_with_an_empty_folder() -> None:
    with site(3) as made:
        with Traffic(made.client.agent, "a") as traffic:
            dead = made.servers[0]
            dead.kill()
            before = {peer["ID"] for peer in made.peers()}
            dead.lose_data()
            dead.restart()
            assert until(lambda: {peer["ID"] for peer in made.peers()} - before, within_s=CHANGED_S_MAX)
            made.wait_for_voters("s1", "s2", "s3")
        assert_nothing_was_lost(made, traffic, made.servers)


def test_a_server_without_which_nobody_could_write_ends_without_leaving() -> None:
    """Whatever `leave_on_terminate` says: with its vote it brings the store back when it starts again."""
    with site(3, leave_on_terminate=True) as made:
        dead, ending, staying = made.servers
        dead.kill()
        assert until(lambda: status_of(dead, staying) == FAILED, within_s=CHANGED_S_MAX)
        assert until(lambda: status_of(dead, ending) == FAILED, within_s=CHANGED_S_MAX)
        ending.stop()
        told = "stopping without leaving, as 1 of the 2 servers that would stay cannot be reached"
        assert told in ending.agent.log_tail()
        ending.restart()
        assert until(lambda: made.client.put("/v1/kv/a")[0] == http.client.OK, within_s=ELECTED_S_MAX)
        assert made.voters() == ["s1", "s2", "s3"]


def status_of(member: Member, asked: Member) -> object:
    every = json.loads(asked.ask("/v1/agent/members"))
    return next(each["Status"] for each in every if each["Name"] == member.name)
