"""Configurations of trees, written to files and read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from adsum.config.build import ConfigError, ConfigErrors, Loaded
from adsum.config.load import load


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
