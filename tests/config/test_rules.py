from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.support import errors_of, load_trees


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


def test_scripts_from_the_api_without_a_fence_warn(tmp_path: Path) -> None:
    (warning,) = load_trees(tmp_path, {"enable_script_checks": True}).warnings
    assert "allow_write_http_from" in warning


def test_a_node_id_that_names_the_store_is_refused(tmp_path: Path) -> None:
    (error,) = errors_of(tmp_path, {"node_id": "4073746F-7265-0000-8000-000000000001"})
    assert "begins as the name of the store does" in error.sentence
    assert load_trees(tmp_path, {"node_id": "4073746f-7265-0001-8000-000000000001"}).warnings == []
