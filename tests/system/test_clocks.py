"""Agents on hosts whose clock is days wrong, as that of a virtual machine is before it has asked for the
time: they are as present as the others, and they say what is wrong.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.system.agents import adsum_program, until, with_clock
from tests.system.clusters import Cluster, Member, emptied, joining, loopbacks, sweeping
from tests.system.offers import differences, expected, offer

AGENTS = 3
THREE_DAYS_S = 259_200
LEADER_S_MAX = 30.0
SEEN_S_MAX = 10.0  # a start takes one of them
SAID_S_MAX = 5.0
SHOWN_S_MAX = 15.0  # gauges are sampled every ten
READ_APART_S = 60.0  # at most, for two clocks that are read one after the other
OFFSET = re.compile(r"^adsum_clock_offset_seconds (\S+)$", re.MULTILINE)
THREE_DAYS = re.compile(r"\b(?:3 ?d(?:ays)?|72 ?h(?:ours)?|72h0m0s|259[,.]?[012]\d\d ?s)\b")


class Look(NamedTuple):
    has_said_joined: bool
    others: int


class Odd(NamedTuple):
    """The one whose clock is wrong, with what was seen of it since it was started."""

    cluster: Cluster
    member: Member
    ahead_s: int
    looks: list[Look]
    problems: list[str]


def restarted(cluster: Cluster, ahead_s: int) -> Member:
    """With its data folder, so it knows whom to ask. What its log said before is forgotten."""
    member = cluster.members[-1]
    member.kill()
    (member.agent.folder / "log").unlink()
    member.agent.program = with_clock(cluster.program, ahead_s)
    member.restart()
    return member


def newly_joined(cluster: Cluster, ahead_s: int) -> Member:
    config = {**joining(cluster.members[0].place), "log_level": "INFO"}
    return cluster.add(loopbacks(1)[0], config, program=with_clock(cluster.program, ahead_s))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((begin, ahead_s), id=f"{begin.__name__}, {words}")
        for begin in (restarted, newly_joined)
        for ahead_s, words in ((-THREE_DAYS_S, "3 days behind"), (THREE_DAYS_S, "3 days ahead"))
    ],
)
def odd(request: pytest.FixtureRequest) -> Iterator[Odd]:
    """Beside others with the right time; each offers the same services."""
    begin, ahead_s = request.param
    with emptied(Cluster(adsum_program())) as cluster:
        places = loopbacks(AGENTS)
        for place in places:
            cluster.add(place, {**joining(places[0]), "log_level": "INFO"})
        cluster.wait_for_one_view()
        for member in cluster.members:
            offer(member)
        yield started_odd(cluster, begin, ahead_s)


def started_odd(cluster: Cluster, begin: Callable[[Cluster, int], Member], ahead_s: int) -> Odd:
    member = begin(cluster, ahead_s)
    offer(member)
    looks, wanted = list[Look](), expected(cluster)

    def is_seen() -> bool:
        looks.append(Look("joined" in member.agent.log(), len(member.view()) - 1))
        return not differences(cluster, wanted)

    sweeping(is_seen, within_s=SEEN_S_MAX)
    return Odd(cluster, member, ahead_s, looks, differences(cluster, wanted))


def test_agent_with_a_wrong_clock_shows_all_members_and_services_and_all_show_it(odd: Odd) -> None:
    assert not odd.problems, "\n".join([*odd.problems, odd.member.agent.log_tail()])


def test_agent_does_not_say_that_it_joined_while_it_lists_nobody_else(odd: Odd) -> None:
    assert Look(has_said_joined=True, others=0) not in odd.looks, odd.member.agent.log_tail()


def test_agent_s_log_says_how_wrong_its_clock_is(odd: Odd) -> None:
    has_said = until(lambda: tells_the_offset(odd.member.agent.log()), within_s=SAID_S_MAX)
    assert has_said, odd.member.agent.log_tail()


def test_command_line_shows_on_that_host_how_wrong_its_clock_is(odd: Odd) -> None:
    shown = "".join(command_line(odd.member, word) for word in ("info", "members"))
    is_told = tells_the_offset(shown)
    assert is_told, shown


def test_a_metric_shows_the_offset_where_the_clock_is_wrong_and_none_elsewhere(odd: Odd) -> None:
    assert shows_offset(odd.member, odd.ahead_s)
    assert all(shows_offset(member, 0) for member in odd.cluster.members if member is not odd.member)


def tells_the_offset(text: str) -> bool:
    return any(THREE_DAYS.search(line) for line in text.splitlines() if "clock" in line)


def command_line(member: Member, word: str) -> str:
    command = [*adsum_program().command, word, f"-http-addr=127.0.0.1:{member.place.ports.http}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout


def shows_offset(member: Member, ahead_s: int) -> bool:
    def is_shown() -> bool:
        found = OFFSET.search(member.ask("/metrics").decode())
        return found is not None and abs(float(found[1]) - ahead_s) <= READ_APART_S

    return until(is_shown, within_s=SHOWN_S_MAX)


def test_nodes_without_an_agent_are_shown_though_their_server_s_clock_is_days_ahead() -> None:
    """Their generation begins with the clock of whoever registers the first."""
    with emptied(Cluster(adsum_program())) as cluster:
        places = loopbacks(AGENTS)
        for place in places:
            cluster.add(place, joining(places[0]))
        cluster.wait_for_one_view()  # they know that they are right, before there is somebody who is not
        clients = list(cluster.members)
        server = cluster.add(
            loopbacks(1)[0],
            {"server": True, "bootstrap": True, **joining(places[0])},
            program=with_clock(cluster.program, THREE_DAYS_S),
        )
        cluster.wait_for_one_view()
        node = {"Node": "printer", "Address": "10.9.0.1", "Service": {"Service": "lpd", "Port": 515}}
        assert until(
            lambda: server.put("/v1/catalog/register", node) == (200, b"true"), within_s=LEADER_S_MAX
        )
        for client in clients:
            assert until(
                lambda: bool(client.agent.get_json("/v1/catalog/service/lpd")),  # noqa: B023
                within_s=SEEN_S_MAX,
            )
