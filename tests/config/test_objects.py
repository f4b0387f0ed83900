from __future__ import annotations

from pathlib import Path

from adsum.config.build import ConfigError
from adsum.config.load import load
from adsum.now import SECOND
from tests.config.support import errors_of, load_trees


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
