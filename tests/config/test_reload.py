from __future__ import annotations

import json
from pathlib import Path

import pytest

from adsum.config.config import Config
from adsum.config.keys import KEYS, TLS_KEYS, ConfigKey, Fate
from adsum.config.kinds import KeyKind
from adsum.config.load import load
from adsum.config.reload import Changes, applied, diff

OTHER_VALUES: dict[str, object] = {
    "node_meta": {"a": "b"},
    "recursors": ["1.1.1.1"],
    "dns_config.extra_domains": ["other"],
    "dns_config.service_ttl": {"*": "9s"},
    "log_level": "error",
    "services": [{"name": "a"}],
    "checks": [{"name": "c", "ttl": "5s"}],
    "watches": [{"type": "nodes", "args": ["true"]}],
}


def config_of(tmp_path: Path, **tree: object) -> Config:
    path = tmp_path / "agent.json"
    path.write_text(json.dumps({"data_dir": "/data"} | tree))
    return load([str(path)], {}, hostname=lambda: "host1").config


def test_each_key_is_applied_or_waits_for_a_restart_or_is_unchanged(tmp_path: Path) -> None:
    old = config_of(tmp_path, domain="a", log_level="INFO", node_meta={"a": "1"}, recursors=["1.1.1.1"])
    new = config_of(tmp_path, domain="b", node_meta={"a": "2"}, recursors=["1.1.1.1"], retry_join_wan=["x"])
    assert diff(old, new) == Changes(applied=["node_meta"], needs_restart=["domain"])


def test_a_key_removed_from_the_files_is_a_change(tmp_path: Path) -> None:
    old = config_of(tmp_path, check_update_interval="1m", check_output_max_size=10)
    assert diff(old, config_of(tmp_path)) == Changes(
        applied=["check_update_interval"], needs_restart=["check_output_max_size"]
    )


def test_a_key_set_to_its_default_is_no_change(tmp_path: Path) -> None:
    new = config_of(tmp_path, check_update_interval="300s", domain="consul.")
    changes = diff(config_of(tmp_path), new)
    assert (changes.applied, changes.needs_restart) == ([], [])


def test_what_needs_a_restart_keeps_its_old_value(tmp_path: Path) -> None:
    old = config_of(tmp_path, domain="a", log_json=False)
    new = config_of(tmp_path, domain="b", log_json=True, log_level="error", services=[{"name": "s"}])
    running = applied(old, new)
    assert (running.domain, running.log.is_json) == ("a.", False)
    assert (running.log.level, running.services) == ("ERROR", new.services)
    assert diff(running, new).needs_restart == ["domain", "log_json"]


@pytest.mark.parametrize(
    "name", [name for name, key in KEYS.items() if key.fate is Fate.RELOAD and name not in TLS_KEYS]
)
def test_every_key_that_reloads_really_arrives(tmp_path: Path, name: str) -> None:
    old = config_of(tmp_path)
    value = OTHER_VALUES[name] if name in OTHER_VALUES else _other(KEYS[name])
    *sections, leaf = name.split(".")
    tree: object = {leaf: value}
    for section in reversed(sections):
        tree = {section: tree}
    assert isinstance(tree, dict)
    new = config_of(tmp_path, **tree)
    assert diff(old, new).applied == [name]
    assert new != old
    assert applied(old, new) == new


def _other(key: ConfigKey) -> object:
    match key.kind:
        case KeyKind.BOOL:
            return not key.default
        case KeyKind.DURATION:
            return "9s"
        case _:
            assert isinstance(key.default, int)
            return key.default + 1


def test_nothing_that_needs_a_restart_arrives(tmp_path: Path) -> None:
    old = config_of(tmp_path)
    new = config_of(tmp_path, server=True, client_addr="10.0.0.1", http_config={"allowed_hosts": ["a"]})
    assert applied(old, new) == old
