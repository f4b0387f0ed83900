from __future__ import annotations

from pathlib import Path

import pytest

from adsum.config import reload
from adsum.config.build import ConfigError
from adsum.config.config import HttpHandler, WatchDefinition
from adsum.config.load import load
from adsum.now import SECOND
from adsum.watch_plan import plan_of
from tests.config.support import errors_of, load_trees

TYPES = "key, keyprefix, services, nodes, service, checks, event"
NODES = {"type": "nodes", "args": ["/usr/local/bin/told"]}


def test_a_watch_runs_a_program_and_needs_no_leave_to_run_script_checks(tmp_path: Path) -> None:
    loaded = load_trees(tmp_path, {"watches": [NODES]}, {"watches": [{"type": "nodes", "handler": "cat >x"}]})
    assert loaded.warnings == []
    assert loaded.config.watches == (
        WatchDefinition(plan=plan_of("nodes", {}), args=("/usr/local/bin/told",)),
        WatchDefinition(plan=plan_of("nodes", {}), args=("/bin/sh", "-c", "cat >x")),
    )


def test_a_watch_makes_a_request_where_its_type_says_so(tmp_path: Path) -> None:
    handler = {"path": "http://127.0.0.1:1/x", "method": "PUT", "header": {"A": ["b", "c"]}, "timeout": "5s"}
    tree = {
        "type": "service",
        "service": "web",
        "tag": "blue",
        "passingonly": "true",
        "token": "secret",
        "handler_type": "http",
        "http_handler_config": {**handler, "tls_skip_verify": True},
    }
    assert load_trees(tmp_path, {"watches": [tree]}).config.watches == (
        WatchDefinition(
            plan=plan_of("service", {"service": "web"}, ("blue",), passing_only=True),
            http=HttpHandler(
                url="http://127.0.0.1:1/x",
                method="PUT",
                header=(("A", "b"), ("A", "c")),
                timeout_ns=5 * SECOND,
                tls_skip_verify=True,
            ),
            token="secret",
        ),
    )


def test_hcl_blocks_mean_what_json_objects_mean(tmp_path: Path) -> None:
    (tmp_path / "a.hcl").write_text(
        """
        data_dir = "/data"
        watches = [{
          type = "key"
          key = "a"
          handler_type = "http"
          http_handler_config { path = "https://h/x" header { A = ["b"] } }
        }]
        """
    )
    (watch,) = load([str(tmp_path / "a.hcl")], {}, hostname=lambda: "h").config.watches
    assert watch.http == HttpHandler(url="https://h/x", header=(("A", "b"),))


@pytest.mark.parametrize(
    ("watch", "place", "sentence"),
    [
        ({"args": ["x"]}, "", "the type of the watch is missing"),
        (
            {"type": "node", "args": ["x"]},
            "",
            f'there is no watch of type "node": it is one of {TYPES}',
        ),
        ({"type": "key", "args": ["x"]}, "", "a watch of type key needs its key"),
        ({"type": "nodes", "key": "a", "args": ["x"]}, "", "a watch of type nodes takes no key"),
        (
            {"type": "checks", "service": "a", "state": "any", "args": ["x"]},
            "",
            "a watch of type checks takes a service or a state, not both",
        ),
        ({**NODES, "argz": []}, ".argz", 'is no key we know: did you mean "args"?'),
        ({**NODES, "stale": "maybe"}, ".stale", 'must be true or false, not the text "maybe"'),
        ({"type": "nodes"}, "", "a handler of type script needs args or handler"),
        ({"type": "nodes", "args": [5]}, ".args", "must be a text, not the number 5"),
        ({"type": "nodes", "args": [""]}, ".args", "must name a program"),
        ({**NODES, "handler": "y"}, "", "only one handler is allowed, not handler and args"),
        ({**NODES, "handler_type": "htp"}, ".handler_type", 'must be script or http, not "htp"'),
        ({**NODES, "handler_type": "http"}, "", "a handler of type http needs http_handler_config"),
        (
            {"type": "nodes", "handler_type": "http", "http_handler_config": {"path": "/x"}},
            ".http_handler_config.path",
            'must be a URL, as "http://127.0.0.1:8000/changed"',
        ),
        (
            {
                "type": "nodes",
                "handler_type": "http",
                "http_handler_config": {"path": "http://h", "tmeout": 1},
            },
            ".http_handler_config.tmeout",
            'is no key we know: did you mean "timeout"?',
        ),
    ],
)
def test_a_watch_that_cannot_work_is_refused_at_its_place(
    tmp_path: Path, watch: object, place: str, sentence: str
) -> None:
    assert errors_of(tmp_path, {"watches": [watch]}) == [ConfigError(f"0.json: watches[0]{place}", sentence)]


def test_no_more_than_64_watches_are_taken(tmp_path: Path) -> None:
    watches = [{"type": "key", "key": f"k{n}", "args": ["x"]} for n in range(65)]
    assert errors_of(tmp_path, {"watches": watches}) == [
        ConfigError("0.json: watches[64]", "there are 65 watches, and at most 64 are run")
    ]


def test_a_watch_that_is_given_twice_runs_once_and_a_warning_says_so(tmp_path: Path) -> None:
    loaded = load_trees(tmp_path, {"watches": [NODES]}, {"watches": [NODES]})
    assert len(loaded.config.watches) == 1
    assert loaded.warnings == [
        f"{tmp_path}/1.json: watches[0]: the same watch as at {tmp_path}/0.json: watches[0], and run once"
    ]


def test_watches_are_changed_by_a_reload(tmp_path: Path) -> None:
    old, new = load_trees(tmp_path, {}).config, load_trees(tmp_path, {"watches": [NODES]}).config
    assert reload.diff(old, new).applied == ["watches"]
    assert len(reload.applied(old, new).watches) == 1


def test_what_a_watch_sends_in_secret_is_not_shown(tmp_path: Path) -> None:
    handler = {"path": "http://u:p@h/x", "header": {"Authorization": ["Bearer s"]}}
    watch = {"type": "nodes", "token": "t", "handler_type": "http", "http_handler_config": handler}
    config = load_trees(tmp_path, {"watches": [watch]}).config
    for secret in ("u:p@", "Bearer s", "'t'"):
        assert secret not in str(config.raw["watches"])
