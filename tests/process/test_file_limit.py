from __future__ import annotations

import logging
import resource
from typing import cast

import pytest

from adsum.net.streams import StreamLimits
from adsum.process.file_limit import NO_SERVER, Division, ServerShares, Shares, divide, divide_files
from adsum.process.server_rim import stream_limits
from adsum.process.sockets import CannotStart
from adsum.servers.agent_calls import AgentCalls, KnowsAgents
from adsum.servers.agent_questions import AgentQuestions

LISTENERS = 4  # HTTP twice, DNS over UDP and over TCP


@pytest.mark.parametrize(
    ("files", "division"),
    [
        (64, (5, Shares(1, 4, 2, 2, 4, 4, 1, 2, 2, 1, 1, 1))),
        (20_000, (14_434, Shares(256, 64, 512, 512, 256, 1_024, 256, 64, 256, 32, 1_024, 64))),
        (65_536, (59_970, Shares(256, 64, 512, 512, 256, 1_024, 256, 64, 256, 32, 1_024, 64))),
    ],
)
def test_every_file_belongs_to_somebody(files: int, division: tuple[int, Shares]) -> None:
    assert divide(files, LISTENERS, is_server=False) == Division(*division, NO_SERVER)


@pytest.mark.parametrize(
    ("files", "http_connections", "server"),
    [
        (86, 2, ServerShares(2, 4, 4, 2)),
        (128, 30, ServerShares(2, 4, 4, 16)),
        (1_024, 336, ServerShares(11, 13, 6, 296)),
        (20_000, 7_771, ServerShares(194, 195, 49, 6_212)),
        (65_536, 51_189, ServerShares(256, 256, 64, 8_192)),
    ],
)
def test_a_server_has_a_share_for_the_lines_of_agents(
    files: int, http_connections: int, server: ServerShares
) -> None:
    division = divide(files, LISTENERS + 1, is_server=True)
    assert (division.http_connections, division.server) == (http_connections, server)


def test_a_server_holds_5_000_agents_with_the_files_that_a_service_manager_gives() -> None:
    assert divide(65_536, LISTENERS, is_server=True).server.agent_lines == 8_192
    assert divide(20_000, LISTENERS, is_server=True).server.agent_lines > 5_000


def test_a_run_of_a_network_check_counts_as_two_files_and_of_a_script_as_four() -> None:
    assert Shares(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, network_runs=3, script_runs=5).files == 10 + 6 + 20


@pytest.mark.parametrize(("script_runs", "of_checks", "of_watches"), [(64, 56, 8), (8, 7, 1), (1, 1, 1)])
def test_of_programs_an_eighth_is_for_watches(script_runs: int, of_checks: int, of_watches: int) -> None:
    shares = Shares(script_runs=script_runs)
    assert (shares.check_programs, shares.watch_handlers) == (of_checks, of_watches)
    assert shares.programs == of_checks + of_watches


@pytest.mark.parametrize("listeners", [0, 4, 24])
def test_no_number_of_files_is_given_away_twice(listeners: int) -> None:
    for files in range(120, 30_000, 7):
        client = divide(files, listeners, is_server=False)
        assert client.http_connections >= 2
        assert client.http_connections + client.shares.files + 26 + listeners == files
        server = divide(files, listeners, is_server=True)
        assert server.http_connections >= 2
        owned = server.http_connections + server.shares.files + server.server.files
        assert owned + 38 + listeners == files


def test_more_addresses_to_listen_on_leave_less_for_clients() -> None:
    more = divide(1_024, LISTENERS + 40, is_server=False)
    assert more.http_connections < divide(1_024, LISTENERS, is_server=False).http_connections


@pytest.mark.parametrize(
    ("files", "is_server", "needed"),
    [
        (0, False, "an agent needs 61"),
        (60, False, "an agent needs 61"),
        (84, True, "a server needs 85"),
    ],
)
def test_too_few_files_to_run_stop_the_start_with_what_to_do(
    files: int, needed: str, *, is_server: bool
) -> None:
    with pytest.raises(CannotStart) as refused:
        divide(files, LISTENERS, is_server=is_server)
    assert str(refused.value) == (
        f"this process may open {files} files, and {needed}: raise its limit, "
        "by LimitNOFILE= in its systemd unit or by ulimit -n"
    )
    divide(files + 61, LISTENERS, is_server=is_server)


@pytest.mark.parametrize(("files", "lines"), [(1_023, 1), (1_024, 0)])
def test_that_files_are_few_is_said_at_the_start(
    files: int, lines: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (files, files))
    with caplog.at_level(logging.WARNING):
        assert divide_files(LISTENERS, is_server=False).http_connections > 500
    assert len([each for each in caplog.records if "1023 files only" in each.getMessage()]) == lines


def test_lines_of_agents_and_streams_of_servers_are_as_many_as_their_shares() -> None:
    shares = divide(1_024, LISTENERS, is_server=True).server
    assert stream_limits(shares) == StreamLimits(
        openings_max=11,
        openings_per_host_max=5,
        streams_max=13,
        streams_per_host_max=6,
        callers_max=13,
    )
    lines = AgentCalls(cast("AgentQuestions", None), cast("KnowsAgents", None)).lines(shares.agent_lines)
    assert (lines.lines_max, lines.lines_per_host_max) == (296, 296)
