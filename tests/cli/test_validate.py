from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Adsum


def test_a_good_configuration_is_called_valid_or_quietly_so(adsum: Adsum, tmp_path: Path) -> None:
    file = tmp_path / "good.json"
    file.write_text(json.dumps({"data_dir": str(tmp_path), "datacenter": "dc1"}))
    assert adsum("validate", str(file)) == (0, "Configuration is valid!\n", "")
    assert adsum("validate", "-quiet", str(tmp_path)) == (0, "", "")


def test_warnings_are_told_beside(adsum: Adsum, tmp_path: Path) -> None:
    file = tmp_path / "mesh.json"
    file.write_text(json.dumps({"data_dir": str(tmp_path), "connect": {"enabled": True}}))
    status, out, err = adsum("validate", str(file))
    assert (status, out) == (0, "Configuration is valid!\n")
    assert err.startswith("Warning: ")


def test_every_error_is_told_with_its_place(adsum: Adsum, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps({"data_dir": str(tmp_path), "datacentre": "dc1", "ports": {"dns": "x"}}))
    status, out, err = adsum("validate", str(file))
    assert (status, out) == (1, "")
    first, *mistakes = err.splitlines()
    assert first == "Config validation failed:"
    assert [line.split(": ")[:2] for line in mistakes] == [
        [str(file), "datacentre"],
        [str(file), "ports.dns"],
    ]


def test_a_file_that_is_not_there_or_not_read_is_the_only_thing_told(adsum: Adsum, tmp_path: Path) -> None:
    missing, broken = tmp_path / "nofile", tmp_path / "broken.json"
    broken.write_text('{"data_dir": ')
    status, _, err = adsum("validate", str(missing), str(broken))
    assert status == 1
    assert err.splitlines() == [
        "Config validation failed:",
        f"{missing}: No such file or directory",
        f"{broken}: is not JSON at line 1 column 14: Expecting value",
    ]


def test_a_format_is_taken_whatever_the_suffix(adsum: Adsum, tmp_path: Path) -> None:
    file = tmp_path / "adsum.conf"
    file.write_text(f'data_dir = "{tmp_path}"\n')
    assert adsum("validate", "-config-format=toml", str(file)).status == 0


def test_nothing_to_validate_is_a_matter_of_usage(adsum: Adsum) -> None:
    assert adsum("validate").status == 2
