"""What is wrong with a configuration: all of it at once, each with its place, so that one look is enough."""

from __future__ import annotations

from collections.abc import Sequence

from adsum.frozen import dataclass


@dataclass(frozen=True, slots=True)
class ConfigError:
    place: str  # "conf.d/web.json: services[1].port"
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}" if self.place else self.sentence


class ConfigErrors(Exception):
    """The operator's to mend; nothing was started or changed."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        super().__init__("\n".join(map(str, errors)))
        self.errors = list(errors)


class UnreadableFile(ValueError):
    """A file's content is not in its format; the message says where."""
