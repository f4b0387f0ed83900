from __future__ import annotations

from pathlib import Path

from tests.config.support import errors_of, load_trees


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


def test_a_slip_is_reported_even_where_a_later_file_covers_it(tmp_path: Path) -> None:
    errors = errors_of(tmp_path, {"ports": {"http": "x"}}, {"ports": {"http": 80}})
    assert [error.place for error in errors] == ["0.json: ports.http"]
