"""An agent that is ended again and again right after its start."""

from __future__ import annotations

from pathlib import Path

import cbor2

from tests.system.agents import adsum_program, running

PEERS = cbor2.dumps([["127.0.0.1", 9], ["fe80::1%a\0b", 8301], ["example.com", 8301]])


def test_the_fourth_start_within_a_minute_is_without_what_it_saved_of_others(tmp_path: Path) -> None:
    config = {"data_dir": str(tmp_path), "server": True, "bootstrap": True}
    with running(adsum_program(), config, arguments=()) as agent:
        (tmp_path / "peers").write_bytes(PEERS)
        for _ in range(2):
            agent.kill()
            agent.start_again()
        assert (tmp_path / "peers").read_bytes() == PEERS
        assert "2 entries of the file of peers are no addresses" in agent.log()
        agent.kill()
        agent.start_again()
        assert not (tmp_path / "peers").exists()
        assert (tmp_path / "peers.damaged").read_bytes() == PEERS
        assert "this agent ended 3 times within a minute without being asked to" in agent.log()
        assert "Traceback" not in agent.log()


def test_orderly_restarts_within_a_minute_keep_what_was_saved(tmp_path: Path) -> None:
    config = {"data_dir": str(tmp_path), "server": True, "bootstrap": True, "leave_on_terminate": False}
    with running(adsum_program(), config, arguments=()) as agent:
        (tmp_path / "peers").write_bytes(PEERS)
        for _ in range(4):
            assert agent.stop() == 0
            agent.start_again()
        assert (tmp_path / "peers").read_bytes() == PEERS
