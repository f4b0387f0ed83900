"""Trees become settings, and settings are merged: lists append, maps merge, of single values the last wins.

A setting is what was given for one key, each value with its place. Every source is checked on its own before
it is merged, so that a slip is reported even where a later file would have covered it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from adsum.config.errors import ConfigError
from adsum.config.keys import KEYS, SECTIONS, ConfigKey, did_you_mean, nearest_key, resolve
from adsum.config.kinds import BadValue, KeyKind, convert, describe
from adsum.config.sources import ConfigSource
from adsum.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Placed:
    value: object  # converted
    raw: object  # as it was written
    place: str
    name: str = ""  # within a map


Settings = dict[str, tuple[Placed, ...]]


def merge(every: Iterable[Settings]) -> Settings:
    merged: Settings = {}
    for settings in every:
        for name, given in settings.items():
            merged[name] = _join(KEYS[name].kind, merged.get(name, ()), given)
    return merged


def _join(kind: KeyKind, earlier: tuple[Placed, ...], later: tuple[Placed, ...]) -> tuple[Placed, ...]:
    if kind.is_list:
        return earlier + later
    if kind.is_map:
        return tuple({each.name: each for each in earlier + later}.values())
    return later


def settings_of(source: ConfigSource, errors: list[ConfigError]) -> Settings:
    """A source's settings; what is wrong with it is added to the errors."""
    reader = _Reader(source, errors)
    reader.read_section("", source.tree, at="")
    return reader.settings


class _Reader:
    def __init__(self, source: ConfigSource, errors: list[ConfigError]) -> None:
        self.settings: Settings = {}
        self._source = source
        self._errors = errors

    def read_section(self, section: str, tree: Mapping[str, object], at: str) -> None:
        for key, raw in tree.items():
            path = f"{at}.{key}" if at else str(key)
            name = resolve(section, str(key))
            if name is None:
                self._refuse(path, "is no key we know" + did_you_mean(nearest_key(section, str(key))))
            elif raw is not None:
                self._read(name, raw, path)

    def _read(self, name: str, raw: object, path: str) -> None:
        if name in SECTIONS:
            for tree, tree_path in self._objects(raw, path):
                self.read_section(name, tree, tree_path)
            return
        key = KEYS[name]
        given = tuple(self._given(key, raw, path))
        if given or key.kind.is_list or key.kind.is_map:
            self.settings[key.name] = _join(key.kind, self.settings.get(key.name, ()), given)

    def _given(self, key: ConfigKey, raw: object, path: str) -> Iterator[Placed]:
        if key.kind is KeyKind.OBJECTS:
            for value, value_path in self._objects(raw, path):
                yield self._placed(value, value, value_path)
        elif key.kind.is_list:
            # one text where a list of them belongs can only mean one thing
            for n, element in enumerate(raw if isinstance(raw, list | tuple) else [raw]):
                yield from self._converted(key.kind.element, element, f"{path}[{n}]")
        elif key.kind.is_map:
            for tree, tree_path in self._objects(raw, path):
                for name, element in tree.items():
                    yield from self._converted(key.kind.element, element, f"{tree_path}.{name}", str(name))
        else:
            yield from self._converted(key.kind, raw, path)

    def _converted(self, kind: KeyKind, raw: object, path: str, name: str = "") -> Iterator[Placed]:
        if raw is None:
            return
        try:
            yield self._placed(convert(kind, raw), raw, path, name)
        except BadValue as problem:
            self._refuse(path, str(problem))

    def _objects(self, raw: object, path: str) -> Iterator[tuple[Mapping[str, object], str]]:
        """HCL says a block twice where JSON would have one object: a list of objects is taken for either."""
        is_list = isinstance(raw, list | tuple)
        for n, value in enumerate(raw if isinstance(raw, list | tuple) else [raw]):
            value_path = f"{path}[{n}]" if is_list else path
            if isinstance(value, Mapping):
                yield value, value_path
            elif value is not None:
                self._refuse(value_path, f"must be an object, not {describe(value)}")

    def _placed(self, value: object, raw: object, path: str, name: str = "") -> Placed:
        return Placed(value, raw, self._source.place(path), name)

    def _refuse(self, path: str, sentence: str) -> None:
        self._errors.append(ConfigError(self._source.place(path), sentence))
