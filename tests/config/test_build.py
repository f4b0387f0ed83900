from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adsum.config.build import ConfigError, ConfigErrors
from adsum.config.config import Addresses, Config, SoaConfig
from adsum.config.flags import parse_agent_flags
from adsum.config.keys import KEYS, SECTIONS
from adsum.config.load import load
from adsum.now import SECOND
from tests.config.support import errors_of, load_trees


def test_nothing_but_a_data_dir_gives_the_defaults(tmp_path: Path) -> None:
    loaded = load_trees(tmp_path)
    assert loaded.config == Config(node_name="host1", data_dir="/data", given={"data_dir": "/data"})
    assert loaded.warnings == []


def test_dev_is_a_server_in_memory_on_loopback() -> None:
    config = load([], {"dev": True}, hostname=lambda: "host1").config
    assert config.is_server
    assert config.bootstrap
    assert config.data_dir == ""
    assert (config.serf_lan_address, config.advertise_address) == ("127.0.0.1", "127.0.0.1")
    assert config.log.level == "DEBUG"


def test_files_override_what_dev_implies_and_flags_override_files(tmp_path: Path) -> None:
    flags = {"dev": True, "log_level": "warn"}
    config = load_trees(tmp_path, {"bind_addr": "10.0.0.1", "log_level": "error"}, flags=flags).config
    assert config.serf_lan_address == "10.0.0.1"
    assert config.log.level == "WARN"


def test_all_errors_come_at_once_with_their_places(tmp_path: Path) -> None:
    errors = errors_of(
        tmp_path,
        {"bogus": 1, "ports": {"http": "80", "htp": 1}, "node_meta": {"a": 1}, "recursors": ["1.1.1.1", 5]},
        {
            "dns_config": {"node_ttl": "5"},
            "services": [{"name": "a"}, {"name": "b", "prt": 5}],
            "server": "true",
        },
        flags={"ports": {"dns": 70000}, "datacenter": "a b"},
    )
    assert errors == [
        ConfigError("0.json: bogus", "is no key we know"),
        ConfigError("0.json: ports.http", 'must be a whole number, not the text "80"'),
        ConfigError("0.json: ports.htp", 'is no key we know: did you mean "ports.http"?'),
        ConfigError("0.json: node_meta.a", "must be a text, not the number 1"),
        ConfigError("0.json: recursors[1]", "must be a text, not the number 5"),
        ConfigError(
            "1.json: dns_config.node_ttl",
            'must be a duration, as "10s" or "1h30m": time: missing unit in duration "5"',
        ),
        ConfigError("1.json: server", 'must be true or false, not the text "true"'),
        ConfigError("flag -dns-port", "must be a port up to 65535, or -1 to disable it, not 70000"),
        ConfigError("1.json: services[1].prt", 'is no key we know: did you mean "port"?'),
        ConfigError("flag -datacenter", 'may hold only letters, digits, "-" and "_", not "a b"'),
    ]


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ({"data_dir": ""}, "data_dir"),
        ({"bind_addr": "10.0.0.1 10.0.0.2"}, "bind_addr"),
        ({"client_addr": "localhost"}, "client_addr"),
        ({"client_addr": "{{ GetPrivateIP }}"}, "client_addr"),
        ({"advertise_addr": "0.0.0.0"}, "advertise_addr"),
        ({"addresses": {"dns": "unix:///x"}}, "addresses.dns"),
        ({"recursors": ["resolver.example"]}, "recursors[0]"),
        ({"recursors": ["1.1.1.1:99999"]}, "recursors[0]"),
        ({"domain": "a..b"}, "domain"),
        ({"node_id": "zz"}, "node_id"),
        ({"node_meta": {"a b": "c"}}, "node_meta.a b"),
        ({"bootstrap_expect": 3}, "bootstrap_expect"),
        ({"server": True, "bootstrap": True, "bootstrap_expect": 3}, "bootstrap_expect"),
        ({"bootstrap": True}, "bootstrap"),
        ({"log_level": "loud"}, "log_level"),
        ({"ports": {"http": 8600}}, "ports.http"),
        ({"http_config": {"allow_write_http_from": ["10.0.0.0/99"]}}, "http_config.allow_write_http_from[0]"),
        ({"check_update_interval": "-5s"}, "check_update_interval"),
        ({"default_query_time": "1h"}, "default_query_time"),
        ({"unix_sockets": {"mode": "rw"}}, "unix_sockets.mode"),
        ({"limits": {"http_max_conns_per_client": -1}}, "limits.http_max_conns_per_client"),
        ({"serf_lan": "unix:///x"}, "serf_lan"),
        ({"serf_lan_allowed_cidrs": ["10.0.0.0/99"]}, "serf_lan_allowed_cidrs[0]"),
        ({"retry_max": -1}, "retry_max"),
    ],
)
def test_a_value_that_cannot_work_is_refused_at_its_place(
    tmp_path: Path, tree: dict[str, object], place: str
) -> None:
    path = tmp_path / "0.json"
    path.write_text(json.dumps({"data_dir": "/data"} | tree))
    with pytest.raises(ConfigErrors) as refusal:
        load([str(path)], {})
    assert [error.place for error in refusal.value.errors] == [f"{path}: {place}"]


def test_listeners_fall_back_on_the_client_address(tmp_path: Path) -> None:
    tree = {"client_addr": "127.0.0.1 [::1] 127.0.0.1", "addresses": {"http": "unix:///run/a.sock 10.0.0.1"}}
    config = load_trees(tmp_path, tree).config
    assert config.addresses == Addresses(
        dns=("127.0.0.1", "::1"), http=("unix:///run/a.sock", "10.0.0.1"), https=("127.0.0.1", "::1")
    )


def test_a_specific_bind_address_is_advertised(tmp_path: Path) -> None:
    assert load_trees(tmp_path, {"bind_addr": "10.0.0.1"}).config.advertise_address == "10.0.0.1"
    assert load_trees(tmp_path).config.advertise_address == ""


@pytest.mark.parametrize("is_server", [True, False])
def test_servers_stay_members_when_they_are_stopped_and_clients_leave(
    tmp_path: Path, is_server: bool
) -> None:
    config = load_trees(tmp_path, {"server": is_server}).config
    assert config.leave_on_terminate is not is_server
    assert config.skip_leave_on_interrupt is is_server


def test_dns_settings_arrive_in_their_units(tmp_path: Path) -> None:
    tree = {"service_ttl": {"*": "5s", "web": "1m"}, "soa": {"min_ttl": 7}, "Node_TTL": "1s"}
    dns = load_trees(tmp_path, {"dns_config": tree}).config.dns
    assert dns.service_ttl_ns == {"*": 5 * SECOND, "web": 60 * SECOND}
    assert dns.soa == SoaConfig(min_ttl_s=7)
    assert dns.node_ttl_ns == SECOND
    assert dns.extra_domains == ("adsum.",)


def test_our_own_domain_can_be_taken_away(tmp_path: Path) -> None:
    assert load_trees(tmp_path, {"dns_config": {"extra_domains": []}}).config.dns.extra_domains == ()


def test_a_port_of_nought_or_less_is_not_listened_on(tmp_path: Path) -> None:
    ports = load_trees(tmp_path, {"ports": {"http": 0, "dns": -1}}).config.ports
    assert (ports.http, ports.dns) == (-1, -1)


def test_hcl_on_the_command_line_has_the_last_word() -> None:
    _, flags = parse_agent_flags(["-dev", "-dns-port=1", "-hcl", "ports { dns = 2 }", "-hcl", "bogus = 1"])
    with pytest.raises(ConfigErrors) as refusal:
        load([], flags)
    assert refusal.value.errors == [ConfigError("flag -hcl: bogus", "is no key we know")]
    _, flags = parse_agent_flags(["-dev", "-dns-port=1", "-hcl", "ports { dns = 2 }"])
    assert load([], flags).config.ports.dns == 2


NAMES = st.sampled_from(
    sorted(
        {part for name in [*KEYS, *SECTIONS, "service", "check", "name", "ttl"] for part in name.split(".")}
    )
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["5s", "127.0.0.1", "::", "unix://a", "a.b", "{{", "-1"])
)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_any_tree_is_a_configuration_or_errors_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "any.json"

    @settings(max_examples=300, deadline=None)
    @given(st.dictionaries(NAMES, TREES, max_size=6))
    def check(tree: dict[str, object]) -> None:
        path.write_text(json.dumps(tree))
        try:
            assert load([str(path)], {"dev": True}).config.raw is not None
        except ConfigErrors as refusal:
            errors = refusal.errors
            assert errors

    check()


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from(sorted(KEYS)), TREES)
def test_any_value_of_any_key_is_taken_or_refused(name: str, value: object) -> None:
    tree: object = value
    for part in reversed(name.split(".")):
        tree = {part: tree}
    assert isinstance(tree, dict)
    try:
        load([], {"data_dir": "/x"} | tree)
    except ConfigErrors as refusal:
        errors = refusal.errors
        assert errors


def test_without_a_word_leaders_are_missed_after_a_second(tmp_path: Path) -> None:
    assert load_trees(tmp_path).config.consensus.raft_multiplier == 1


def test_what_servers_are_told_is_read(tmp_path: Path) -> None:
    given = {
        "performance": {"raft_multiplier": 5, "rpc_hold_timeout": "3s"},
        "raft_snapshot_threshold": 100,
        "autopilot": {"cleanup_dead_servers": False, "server_stabilization_time": "1s"},
        "limits": {"kv_max_value_size": 1_000},
    }
    config = load_trees(tmp_path, given).config
    consensus = config.consensus
    assert (consensus.raft_multiplier, consensus.rpc_hold_timeout_ns) == (5, 3 * SECOND)
    assert (consensus.snapshot_threshold, consensus.removes_dead) == (100, False)
    assert (consensus.stabilization_time_ns, config.limits.kv_value_bytes_max) == (SECOND, 1_000)


def test_a_multiplier_that_nobody_could_wait_for_is_refused(tmp_path: Path) -> None:
    [error] = errors_of(tmp_path, {"performance": {"raft_multiplier": 11}})
    assert error.sentence == "must be from 1 to 10, not 11"
