from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.config.support import load_trees

KEY = "cg8StVXbQJ0gPvMd9o7yrg=="


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
