from __future__ import annotations

import logging
import resource

import pytest

from adsum.process.file_limit import Division, Shares, divide, divide_files
from adsum.process.sockets import CannotStart

LISTENERS = 4  # HTTP twice, DNS over UDP and over TCP


@pytest.mark.parametrize(
    ("files", "division"),
    [
        (64, Division(6, Shares(1, 4, 2, 2, 4, 4, 1, 2, 2, 1, 1))),
        (128, Division(59, Shares(1, 4, 3, 3, 4, 7, 1, 2, 2, 4, 1))),
        (256, Division(127, Shares(4, 4, 9, 9, 7, 19, 4, 2, 5, 16, 1))),
        (1_024, Division(505, Shares(22, 9, 45, 45, 25, 91, 22, 7, 23, 88, 6))),
        (20_000, Division(14_466, Shares(256, 64, 512, 512, 256, 1_024, 256, 64, 256, 1_024, 64))),
        (65_536, Division(60_002, Shares(256, 64, 512, 512, 256, 1_024, 256, 64, 256, 1_024, 64))),
    ],
)
def test_every_file_belongs_to_somebody(files: int, division: Division) -> None:
    assert divide(files, LISTENERS) == division


def test_a_run_of_a_network_check_counts_as_two_files_and_of_a_script_as_four() -> None:
    assert Shares(1, 1, 1, 1, 1, 1, 1, 1, 1, network_runs=3, script_runs=5).files == 9 + 6 + 20


@pytest.mark.parametrize("listeners", [0, 4, 24])
def test_no_number_of_files_is_given_away_twice(listeners: int) -> None:
    for files in range(80, 5_000):
        division = divide(files, listeners)
        assert division.http_connections >= 2
        assert division.http_connections + division.shares.files + 26 + listeners == files


def test_more_addresses_to_listen_on_leave_less_for_clients() -> None:
    assert divide(1_024, LISTENERS + 40).http_connections < divide(1_024, LISTENERS).http_connections


@pytest.mark.parametrize("files", [0, 32, 59])
def test_too_few_files_to_run_stop_the_start_with_what_to_do(files: int) -> None:
    with pytest.raises(CannotStart) as refused:
        divide(files, LISTENERS)
    assert str(refused.value) == (
        f"this process may open {files} files, and an agent needs 60: raise its limit, "
        "by LimitNOFILE= in its systemd unit or by ulimit -n"
    )


@pytest.mark.parametrize(("files", "lines"), [(1_023, 1), (1_024, 0)])
def test_that_files_are_few_is_said_at_the_start(
    files: int, lines: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (files, files))
    with caplog.at_level(logging.WARNING):
        assert divide_files(LISTENERS).http_connections > 500
    assert len([each for each in caplog.records if "1023 files only" in each.getMessage()]) == lines
