from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from adsum.config.build import ConfigErrors, Loaded
from adsum.config.config import Gossip
from adsum.config.flags import parse_agent_flags
from adsum.config.load import load
from adsum.now import HOUR, MILLISECOND, SECOND

SHORT_KEY = "c2VjcmV0"  # six bytes


def load_tree(tmp_path: Path, tree: object, *words: str) -> Loaded:
    path = tmp_path / "0.json"
    path.write_text(json.dumps(tree))
    _, flags = parse_agent_flags(["-data-dir=/data", *words])
    return load([str(path)], flags, hostname=lambda: "host1")


def errors_of(tmp_path: Path, tree: object) -> list[tuple[str, str]]:
    with pytest.raises(ConfigErrors) as refusal:
        load_tree(tmp_path, tree)
    return [(error.place.removeprefix(f"{tmp_path}/"), error.sentence) for error in refusal.value.errors]


def test_gossip_lan_of_consul_means_here_what_it_meant_there(tmp_path: Path) -> None:
    gossip_lan = {
        "probe_interval": "3s",
        "probe_timeout": "2s",
        "gossip_interval": "100ms",
        "gossip_nodes": 5,
        "retransmit_mult": 6,
        "suspicion_mult": 7,
    }
    ours = {"mode": "Adaptive", "refused_grace": "0s", "push_nodes": 0}
    tree = {"gossip_lan": gossip_lan, "gossip": ours, "reconnect_timeout": "8h"}
    loaded = load_tree(tmp_path, tree)
    assert loaded.warnings == []
    assert loaded.config.gossip == Gossip(
        mode="adaptive",
        refused_grace_ns=0,
        push_nodes=0,
        probe_interval_ns=3 * SECOND,
        probe_timeout_ns=2 * SECOND,
        gossip_interval_ns=100 * MILLISECOND,
        gossip_nodes=5,
        retransmit_mult=6,
        suspicion_mult=7,
        reconnect_timeout_ns=8 * HOUR,
    )


def test_flags_and_files_say_whom_to_join_and_how_often(tmp_path: Path) -> None:
    flags = ["-retry-join=[fd00::1]:8302", "-join=10.0.0.2", "-retry-interval=5s", "-retry-max=4", "-rejoin"]
    config = load_tree(tmp_path, {"retry_join": ["adsum.example"]}, *flags).config
    assert config.retry_join == ("adsum.example", "[fd00::1]:8302")
    assert config.start_join == ("10.0.0.2",)
    assert (config.retry_interval_ns, config.retry_max) == (5 * SECOND, 4)
    assert config.rejoin_after_leave


def test_a_dev_agent_may_join_others_and_keeps_its_keys_in_memory() -> None:
    _, flags = parse_agent_flags(["-dev", "-retry-join=10.0.0.1"])
    config = load([], flags).config
    assert config.retry_join == ("10.0.0.1",)
    assert config.disable_keyring_file


def test_a_dev_agent_gossips_at_the_pace_of_all_others() -> None:
    assert load([], {"dev": True}).config.gossip == Gossip()


@pytest.mark.parametrize(
    ("tree", "address"),
    [
        ({}, "0.0.0.0"),
        ({"bind_addr": "10.0.0.1"}, "10.0.0.1"),
        ({"bind_addr": "10.0.0.1", "serf_lan": "10.0.0.2"}, "10.0.0.2"),
        ({"serf_lan": "[::]"}, "::"),
    ],
)
def test_gossip_is_bound_where_all_traffic_is_unless_told_otherwise(
    tmp_path: Path, tree: dict[str, str], address: str
) -> None:
    assert load_tree(tmp_path, tree).config.serf_lan_address == address


def test_moving_to_encryption_is_configured_as_in_consul(tmp_path: Path) -> None:
    key = "cg8StVXbQJ0gPvMd9o7yrg=="
    tree = {"encrypt": key, "encrypt_verify_incoming": False, "encrypt_verify_outgoing": False}
    loaded = load_tree(tmp_path, tree)
    assert loaded.warnings == []
    assert loaded.config.encrypt == key
    assert not loaded.config.encrypt_verify_incoming
    assert not loaded.config.encrypt_verify_outgoing


@pytest.mark.parametrize("size", [16, 24, 32])
def test_a_key_has_one_of_three_sizes(tmp_path: Path, size: int) -> None:
    key = base64.b64encode(bytes(size)).decode()
    assert load_tree(tmp_path, {"encrypt": key}).config.encrypt == key


@pytest.mark.parametrize("bad", [SHORT_KEY, "not base64!", "cg8StVXbQJ0gPvMd9o7yrg"])
def test_a_bad_key_is_refused_without_being_shown(tmp_path: Path, bad: str) -> None:
    ((place, sentence),) = errors_of(tmp_path, {"encrypt": bad})
    assert place == "0.json: encrypt"
    assert sentence == "must be 16, 24 or 32 bytes in base64: `adsum keygen` makes such a key"


@pytest.mark.parametrize("key", ["retry_join", "start_join"])
def test_whom_to_join_is_checked_before_anything_starts(tmp_path: Path, key: str) -> None:
    entries = ["10.0.0.1", "provider=aws tag_key=x", "a b", "10.0.0.1:99999"]
    (cloud, form, port) = errors_of(tmp_path, {key: entries})
    assert cloud[0] == f"0.json: {key}[1]"
    assert "cloud's API is not supported; list addresses or a DNS name" in cloud[1]
    assert form[0] == f"0.json: {key}[2]"
    assert "10.0.0.1:8301" in form[1]
    assert port == (f"0.json: {key}[3]", "'10.0.0.1:99999': 99999 is no port")


def test_timing_that_cannot_work_is_refused(tmp_path: Path) -> None:
    tree = {
        "retry_interval": "999ms",
        "reconnect_timeout": "7h59m",
        "gossip": {"mode": "phi"},
        "gossip_lan": {
            "gossip_interval": "9ms",
            "probe_timeout": "1s",
            "gossip_nodes": 0,
            "suspicion_mult": 101,
        },
    }
    assert errors_of(tmp_path, tree) == [
        ("0.json: gossip.mode", 'must be classic or adaptive, not "phi"'),
        (
            "0.json: gossip_lan.gossip_interval",
            "must be at least 10ms: a shorter one does nothing but send",
        ),
        (
            "0.json: gossip_lan.probe_timeout",
            "must be below gossip_lan.probe_interval, 1s: others are asked to probe in what is left",
        ),
        ("0.json: gossip_lan.gossip_nodes", "must be between 1 and 100, not 0"),
        ("0.json: gossip_lan.suspicion_mult", "must be between 1 and 100, not 101"),
        (
            "0.json: reconnect_timeout",
            "must be at least 8h: a failed member that is forgotten sooner may miss its own return",
        ),
        ("0.json: retry_interval", "must be at least 1s: every attempt asks DNS and all agents named"),
    ]


def test_a_probe_must_be_able_to_wait(tmp_path: Path) -> None:
    ((place, sentence),) = errors_of(tmp_path, {"gossip_lan": {"probe_timeout": "0s"}})
    assert place == "0.json: gossip_lan.probe_timeout"
    assert sentence == "must be at least 1ms: no answer is quicker than that everywhere"


def test_an_agent_does_not_lock_itself_out(tmp_path: Path) -> None:
    tree = {"bind_addr": "192.168.0.1", "serf_lan_allowed_cidrs": ["10.0.0.0/8", "fd00::/8"]}
    ((place, sentence),) = errors_of(tmp_path, tree)
    assert place == "0.json: serf_lan_allowed_cidrs[1]"
    assert "192.168.0.1" in sentence
    config = load_tree(tmp_path, tree | {"advertise_addr": "10.1.2.3"}).config
    assert config.serf_lan_allowed_cidrs == ("10.0.0.0/8", "fd00::/8")


def test_without_gossip_a_wish_to_join_is_warned_about(tmp_path: Path) -> None:
    tree = {"ports": {"serf_lan": -1}, "retry_join": ["10.0.0.1"]}
    loaded = load_tree(tmp_path, tree)
    assert loaded.config.ports.serf_lan == -1
    assert loaded.warnings == [
        "ports.serf_lan is -1: without gossip this agent joins nobody, whatever retry_join says"
    ]


@pytest.mark.parametrize(("host", "warned"), [("10.0.0.1", 1), ("127.0.0.2:8302", 0), ("localhost", 0)])
def test_an_agent_on_loopback_is_warned_that_other_hosts_do_not_reach_it(
    tmp_path: Path, host: str, warned: int
) -> None:
    warnings = load_tree(tmp_path, {"bind_addr": "127.0.0.1", "retry_join": [host]}).warnings
    assert ["other hosts do not reach this agent" in warning for warning in warnings] == [True] * warned


def test_what_is_between_data_centres_is_still_without_effect(tmp_path: Path) -> None:
    tree = {"gossip_wan": {"probe_interval": "9s"}, "retry_join_wan": ["a"], "reconnect_timeout_wan": "9h"}
    assert len(load_tree(tmp_path, tree).warnings) == 3
