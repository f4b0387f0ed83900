"""The merged settings, asked by type: what was given, else what -dev implies, else the table's default."""

from __future__ import annotations

from collections.abc import Mapping

from adsum.config.errors import ConfigError
from adsum.config.keys import KEYS
from adsum.config.merge import Placed, Settings


class Values:
    def __init__(self, settings: Settings, defaults: Mapping[str, object], errors: list[ConfigError]) -> None:
        self._settings = settings
        self._defaults = defaults
        self._errors = errors

    def is_given(self, name: str) -> bool:
        return name in self._settings

    def given(self, name: str) -> tuple[Placed, ...]:
        return self._settings.get(name, ())

    def refuse(self, name: str, sentence: str) -> None:
        """At the place of the last value, which is the one that counts."""
        given = self.given(name)
        self._errors.append(ConfigError(given[-1].place if given else name, sentence))

    def refuse_at(self, place: str, sentence: str) -> None:
        self._errors.append(ConfigError(place, sentence))

    def text(self, name: str) -> str:
        value = self._single(name)
        assert value is None or isinstance(value, str)  # the table's kind saw to it, here and below
        return value or ""

    def boolean(self, name: str, *, default: bool = False) -> bool:
        """The default is for keys whose default depends on others."""
        value = self._single(name)
        assert value is None or isinstance(value, bool)
        return default if value is None else value

    def integer(self, name: str) -> int:
        """Ports and durations too."""
        value = self._single(name)
        assert isinstance(value, int)
        return value

    def count(self, name: str) -> int:
        value = self.integer(name)
        if value < 0:
            self.refuse(name, f"must not be negative, as {value} is")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        default = KEYS[name].default
        assert isinstance(default, list)
        values = [each.value for each in self.given(name)] if self.is_given(name) else default
        return tuple(str(value) for value in values)

    def text_map(self, name: str) -> dict[str, str]:
        return {each.name: str(each.value) for each in self.given(name)}

    def duration_map(self, name: str) -> dict[str, int]:
        return {each.name: each.value for each in self.given(name) if isinstance(each.value, int)}

    def _single(self, name: str) -> object:
        given = self.given(name)
        return given[-1].value if given else self._defaults.get(name, KEYS[name].default)
