"""Reading configuration files, whatever their format, into plain trees that remember where they came from.

Folders are read in lexical order, one level deep, as Consul does; other suffixes in them are skipped, but a
file named outright must be readable. Everything wrong is noted, and reading goes on, so that one run shows
all of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from adsum.config.errors import ConfigError, UnreadableFile
from adsum.frozen import dataclass

FILE_BYTES_MAX = 16 * 1024 * 1024  # thousands of services fit; a device or a log given by mistake does not
FILES_MAX = 10_000
DEPTH_MAX = 64  # Consul's own keys go 5 deep


@dataclass(frozen=True, slots=True)
class ConfigSource:
    name: str
    tree: Mapping[str, object]

    def place(self, path: str) -> str:
        return f"{self.name}: {path}"


def read_sources(paths: Sequence[str], config_format: str, errors: list[ConfigError]) -> list[ConfigSource]:
    """In the order given, the later ones to be merged over the earlier ones."""
    if config_format and config_format not in READERS:
        sentence = f"must be {', '.join(sorted(READERS))}, not {config_format}"
        errors.append(ConfigError("-config-format", sentence))
        return []
    sources = []
    for name, file_format in _files(paths, config_format, errors):
        try:
            sources.append(ConfigSource(name, parse(_content(name), file_format)))
        except (UnreadableFile, OSError) as problem:
            errors.append(ConfigError(name, _reason(problem)))
    return sources


def parse(text: str, file_format: str) -> Mapping[str, object]:
    """Raises `UnreadableFile` for whatever is wrong with the text."""
    try:
        tree = READERS[file_format](text) if text.strip() else {}
        if not isinstance(tree, Mapping):
            raise UnreadableFile("must hold an object, with keys and values")
        _check_shape(tree, depth=1)
    except RecursionError:
        raise UnreadableFile(f"is nested more than {DEPTH_MAX} deep") from None
    return tree


def _files(paths: Sequence[str], config_format: str, errors: list[ConfigError]) -> list[tuple[str, str]]:
    files: list[tuple[str, str]] = []
    for path in paths:
        try:
            files += _folder(path, config_format) if Path(path).is_dir() else [_single(path, config_format)]
        except (UnreadableFile, OSError) as problem:
            errors.append(ConfigError(path, _reason(problem)))
    if len(files) > FILES_MAX:
        sentence = f"{len(files)} configuration files are more than the limit, {FILES_MAX}"
        errors.append(ConfigError("", sentence))
        return []
    return files


def _folder(path: str, config_format: str) -> list[tuple[str, str]]:
    files = sorted(entry.name for entry in os.scandir(path) if entry.is_file())
    formats = [(os.path.join(path, name), config_format or _suffix(name)) for name in files]
    return [(name, file_format) for name, file_format in formats if file_format in READERS]


def _single(path: str, config_format: str) -> tuple[str, str]:
    os.stat(path)  # a file that is not there is not told to change its name
    file_format = config_format or _suffix(path)
    if file_format not in READERS:
        raise UnreadableFile(
            "its suffix says no format: name it .json, .toml or .hcl, or give -config-format"
        )
    return path, file_format


def _suffix(name: str) -> str:
    return Path(name).suffix.removeprefix(".")


def _content(path: str) -> str:
    with open(path, "rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise UnreadableFile(f"is larger than {FILE_BYTES_MAX} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UnreadableFile(f"is not UTF-8 at byte {problem.start}") from None


def _reason(problem: Exception) -> str:
    return str(problem.strerror or problem) if isinstance(problem, OSError) else str(problem)


def _read_json(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        raise UnreadableFile(
            f"is not JSON at line {problem.lineno} column {problem.colno}: {problem.msg}"
        ) from None
    except ValueError as problem:  # a number of thousands of digits
        raise UnreadableFile(f"is not JSON: {problem}") from None


def _read_toml(text: str) -> object:
    import tomllib  # readers of formats that no file has are not worth a slower start

    try:
        return tomllib.loads(text)
    except ValueError as problem:
        raise UnreadableFile(f"is not TOML: {problem}") from None


def _read_hcl(text: str) -> object:
    """The language includes JSON: a text that opens with a brace is that."""
    if text.lstrip().startswith("{"):
        return _read_json(text)
    from adsum.config import hcl

    return hcl.read(text)


READERS: dict[str, Callable[[str], object]] = {"json": _read_json, "toml": _read_toml, "hcl": _read_hcl}


def _check_shape(value: object, *, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise UnreadableFile(f"is nested more than {DEPTH_MAX} deep")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check_shape(key, depth=depth)
            _check_shape(inner, depth=depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_shape(inner, depth=depth + 1)
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UnreadableFile("holds half of a surrogate pair, which is no character") from None
