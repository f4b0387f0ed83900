from __future__ import annotations

from pathlib import Path

import pytest

from adsum.config.errors import ConfigError, UnreadableFile
from adsum.config.sources import DEPTH_MAX, parse, read_sources


def read(path: Path, config_format: str = "") -> tuple[list[object], list[ConfigError]]:
    errors: list[ConfigError] = []
    sources = read_sources([str(path)], config_format, errors)
    return [(Path(source.name).name, source.tree) for source in sources], errors


def test_a_folder_is_read_in_lexical_order_without_other_suffixes_and_subfolders(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text('{"domain": "b"}')
    (tmp_path / "a.toml").write_text('domain = "a"')
    (tmp_path / "c.txt").write_text("junk")
    (tmp_path / "sub.json").mkdir()
    assert read(tmp_path) == ([("a.toml", {"domain": "a"}), ("b.json", {"domain": "b"})], [])


def test_a_given_format_reads_every_file_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "agent.conf").write_text('{"domain": "x"}')
    assert read(tmp_path, "json") == ([("agent.conf", {"domain": "x"})], [])


def test_a_file_named_outright_must_say_its_format(tmp_path: Path) -> None:
    """Consul skips it, so that an agent starts without the configuration it was given."""
    file = tmp_path / "agent.conf"
    file.write_text("{}")
    sources, errors = read(file)
    assert sources == []
    assert "-config-format" in errors[0].sentence


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    _, errors = read(tmp_path, "yaml")
    assert errors == [ConfigError("-config-format", "must be hcl, json, toml, not yaml")]


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    _, errors = read(tmp_path / "none.json")
    assert errors == [ConfigError(str(tmp_path / "none.json"), "No such file or directory")]


def test_every_unreadable_file_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{,}")
    (tmp_path / "b.toml").write_text("= 1")
    (tmp_path / "c.json").write_bytes(b"\xff")
    (tmp_path / "d.json").write_text('{"domain": "x"}')
    sources, errors = read(tmp_path)
    assert sources == [("d.json", {"domain": "x"})]
    assert [Path(error.place).name for error in errors] == ["a.json", "b.toml", "c.json"]
    assert "line 1 column 2" in errors[0].sentence


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_file_says_nothing(text: str) -> None:
    assert parse(text, "json") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "must hold an object"),
        ("[" * 100_000, "nested"),
        ('{"a":' * DEPTH_MAX + "1" + "}" * DEPTH_MAX, "nested"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
    ],
)
def test_json_that_would_hurt_later_is_refused_here(text: str, reason: str) -> None:
    with pytest.raises(UnreadableFile, match=reason):
        parse(text, "json")


def test_hcl_that_opens_with_a_brace_is_json() -> None:
    assert parse('{"a": null}', "hcl") == {"a": None}
