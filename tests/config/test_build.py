from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adsum.config.build import ConfigError, ConfigErrors, Loaded
from adsum.config.config import Addresses, Config, SoaConfig
from adsum.config.flags import parse_agent_flags
from adsum.config.keys import KEYS, SECTIONS
from adsum.config.load import load
from adsum.now import SECOND

KEY = "cg8StVXbQJ0gPvMd9o7yrg=="


def load_trees(folder: Path, *trees: object, flags: Mapping[str, object] | None = None) -> Loaded:
    """The files are called 0.json, 1.json … and give a data_dir unless -dev does without."""
    paths = []
    for n, tree in enumerate(trees):
        path = folder / f"{n}.json"
        path.write_text(json.dumps(tree))
        paths.append(str(path))
    return load(paths, {"data_dir": "/data"} | dict(flags or {}), hostname=lambda: "host1")


def errors_of(folder: Path, *trees: object, flags: Mapping[str, object] | None = None) -> list[ConfigError]:
    with pytest.raises(ConfigErrors) as refusal:
        load_trees(folder, *trees, flags=flags)
    prefix = f"{folder}/"
    return [replace(error, place=error.place.removeprefix(prefix)) for error in refusal.value.errors]


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


def test_lists_append_maps_merge_and_the_last_single_value_wins(tmp_path: Path) -> None:
    config = load_trees(
        tmp_path,
        {"recursors": ["1.1.1.1"], "node_meta": {"a": "1", "b": "1"}, "domain": "one", "ports": {"dns": 1}},
        {"recursors": ["8.8.8.8:54"], "node_meta": {"b": "2"}, "domain": "two", "ports": {"http": 2}},
        flags={"recursors": ["::1"]},
    ).config
    assert config.recursors == ("1.1.1.1", "8.8.8.8:54", "::1")
    assert config.node_meta == {"a": "1", "b": "2"}
    assert config.domain == "two."
    assert (config.ports.dns, config.ports.http) == (1, 2)


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


def test_a_slip_is_reported_even_where_a_later_file_covers_it(tmp_path: Path) -> None:
    errors = errors_of(tmp_path, {"ports": {"http": "x"}}, {"ports": {"http": 80}})
    assert [error.place for error in errors] == ["0.json: ports.http"]


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


@pytest.mark.parametrize(
    ("tree", "key"),
    [
        ({"acl": {"default_policy": "deny"}}, "acl.default_policy"),
        ({"acl": {"enabled": True}}, "acl.enabled"),
        ({"auto_encrypt": {"tls": True}}, "auto_encrypt.tls"),
        ({"tls": {"grpc": {"verify_incoming": True}}}, "tls.grpc.verify_incoming"),
    ],
)
def test_a_protection_we_do_not_have_stops_the_start_unless_allowed(
    tmp_path: Path, tree: dict[str, object], key: str
) -> None:
    (error,) = errors_of(tmp_path, tree)
    assert error.place == f"0.json: {key}"
    assert f'adsum.allow_unsupported = ["{key}"]' in error.sentence
    (warning,) = load_trees(tmp_path, tree, {"adsum": {"allow_unsupported": [key]}}).warnings
    assert f"NOT IN FORCE: {key}" in warning


def test_a_protection_switched_off_asks_for_nothing(tmp_path: Path) -> None:
    tree = {
        "acl": {"default_policy": "allow", "enabled": False},
        "verify_outgoing": False,
        "audit": {"enabled": False},
    }
    assert load_trees(tmp_path, tree).warnings == []


def test_allowing_an_unknown_key_is_refused(tmp_path: Path) -> None:
    (error,) = errors_of(tmp_path, {"adsum": {"allow_unsupported": ["encrypted"]}})
    assert 'did you mean "encrypt"?' in error.sentence


def test_keys_without_effect_yet_warn_unless_they_say_the_default(tmp_path: Path) -> None:
    tree = {
        "retry_join_wan": ["a"],
        "segments": [{"name": "x"}],
        "retry_interval_wan": "30s",
        "connect": {"enabled": False},
    }
    warnings = load_trees(tmp_path, tree, {"disable_update_check": True, "watches": []}).warnings
    assert [warning.removeprefix(f"{tmp_path}/") for warning in warnings] == [
        "0.json: retry_join_wan[0]: not supported yet, it has no effect",
        "0.json: segments: not supported yet, it has no effect",
    ]


def test_the_raw_tree_hides_secrets(tmp_path: Path) -> None:
    tree = {
        "acl": {"tokens": {"agent": "s1"}},
        "encrypt": KEY,
        "service": {"name": "a", "token": "s3", "check": {"ttl": "5s", "header": {"Authorization": ["s4"]}}},
        "ports": {"http": 1},
    }
    config = load_trees(tmp_path, tree).config
    assert config.raw["ports"] == {"http": 1}
    assert config.raw["encrypt"] == "hidden"
    for secret in ("s1", KEY, "s3", "s4"):
        assert f"'{secret}'" not in str(config.raw)
        assert f"'{secret}'" not in repr(replace(config, services=()))


def test_passwords_in_targets_of_checks_are_hidden_where_the_configuration_is_shown(tmp_path: Path) -> None:
    tree = {
        "enable_local_script_checks": True,
        "checks": [
            {"name": "a", "interval": "9s", "http": "http://user:hunter2@h:80/p", "body": "pw=hunter2"},
            {"name": "b", "interval": "9s", "TCP": "user:hunter2@h:80"},
            {"name": "c", "interval": "9s", "args": ["sh", "-c", "curl http://user:hunter2@h/"]},
        ],
    }
    checks = load_trees(tmp_path, tree).config.raw["checks"]
    assert checks == [
        {"name": "a", "interval": "9s", "http": "http://user:***@h:80/p", "body": "hidden"},
        {"name": "b", "interval": "9s", "TCP": "user:***@h:80"},
        {"name": "c", "interval": "9s", "args": ["sh", "-c", "curl http://user:***@h/"]},
    ]


def test_services_and_checks_of_all_files_are_read(tmp_path: Path) -> None:
    config = load_trees(
        tmp_path,
        {"service": {"name": "a", "port": 1}, "check": {"name": "c", "ttl": "5s"}},
        {"services": [{"Name": "b", "EnableTagOverride": True, "checks": [{"TTL": "5s"}]}]},
    ).config
    assert [service.name for service in config.services] == ["a", "b"]
    assert config.services[1].enable_tag_override
    assert config.services[1].checks[0].check_id == "service:b"
    assert [check.check_id for check in config.checks] == ["c"]


def test_every_bad_check_of_a_service_is_reported(tmp_path: Path) -> None:
    checks = [{"ttl": "5"}, {"ttl": "5s", "nme": "x"}, {"http": 5, "interval": "5s"}]
    errors = errors_of(tmp_path, {"service": {"name": "a", "checks": checks, "meta": [1]}})
    assert errors == [
        ConfigError("0.json: service.checks[0]", 'time: missing unit in duration "5"'),
        ConfigError("0.json: service.checks[1].nme", 'is no key we know: did you mean "name"?'),
        ConfigError("0.json: service.checks[2]", "HTTP must be a text, not a number"),
        ConfigError("0.json: service", "Meta must be an object, not a list"),
    ]


def test_commands_run_only_where_the_operator_said_so(tmp_path: Path) -> None:
    service = {"service": {"name": "a", "check": {"args": ["x"], "interval": "5s"}}}
    (error,) = errors_of(tmp_path, service)
    assert "enable_local_script_checks" in error.sentence
    assert load_trees(tmp_path, service, {"enable_local_script_checks": True}).warnings == []


def test_of_two_services_with_one_id_the_last_stays_and_a_warning_says_so(tmp_path: Path) -> None:
    loaded = load_trees(
        tmp_path, {"service": {"name": "a", "port": 1}}, {"service": {"name": "a", "port": 2}}
    )
    assert [service.port for service in loaded.config.services] == [2]
    assert loaded.warnings == [
        f'{tmp_path}/1.json: service: service "a" replaces the one at {tmp_path}/0.json: service'
    ]


def test_hcl_blocks_mean_what_json_objects_mean(tmp_path: Path) -> None:
    (tmp_path / "a.hcl").write_text(
        """
        service {
          name = "a"
          meta { k = "v" }
          weights { passing = 3 }
          tagged_addresses { lan { address = "1.2.3.4" port = 5 } }
          check { ttl = "5s" }
          check { http = "http://x" interval = "10s" header { h = ["v"] } }
        }
        service { name = "b" }
        dns_config { node_ttl = "5s" }
        dns_config { only_passing = true }
        node_meta { rack = "1" }
        """
    )
    config = load([str(tmp_path / "a.hcl")], {"dev": True}).config
    first, second = config.services
    assert (first.meta, first.weights.passing, first.tagged_addresses["lan"].port) == ({"k": "v"}, 3, 5)
    assert [check.check_id for check in first.checks] == ["service:a:1", "service:a:2"]
    assert first.checks[1].header == {"h": ["v"]}
    assert second.name == "b"
    assert (config.dns.node_ttl_ns, config.dns.only_passing) == (5 * SECOND, True)
    assert config.node_meta == {"rack": "1"}


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


def test_scripts_from_the_api_without_a_fence_warn(tmp_path: Path) -> None:
    (warning,) = load_trees(tmp_path, {"enable_script_checks": True}).warnings
    assert "allow_write_http_from" in warning


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


def test_definitions_that_no_other_agent_could_hold_are_named_with_their_place(tmp_path: Path) -> None:
    tags, notes = ["x" * 50_000], "n" * 20_000
    errors = errors_of(
        tmp_path,
        {"service": {"name": "huge", "tags": ["x" * 80_000]}},
        {"services": [{"name": "web", "tags": tags, "check": {"ttl": "5s", "notes": notes}}]},
        {"checks": [{"id": "far", "name": "far", "ttl": "5s", "notes": notes, "service_id": "web"}]},
        {"check": {"id": "alone", "name": "alone", "ttl": "5s", "notes": notes}},
        {"service": {"name": "mesh", "proxy": {"config": {"text": "x" * 40_000}}}},
    )
    assert [error.place for error in errors] == [
        "0.json: service",
        "1.json: services[0]",
        "4.json: service",
        "2.json: checks[0]",
    ]
    huge, web, mesh, far = (error.sentence for error in errors)
    assert huge.startswith('service "huge" is too large: it would take 80')
    assert huge.endswith("shorten its tags, meta, or proxy and connect")
    assert web.startswith('check "service:web" is too large')
    assert 'proxy and connect of service "mesh"' in mesh
    assert 'shorten its notes, or the tags of service "web"' in far
