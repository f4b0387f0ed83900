"""From paths and flags to a configuration: read, merge, build, and say everything that is wrong at once.

It reads files and starts nothing, so it is all that `adsum validate` needs, and a reload calls it again.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence

from adsum.config.build import Loaded, build
from adsum.config.errors import ConfigError, ConfigErrors, UnreadableFile
from adsum.config.flags import flag_source
from adsum.config.merge import merge, settings_of
from adsum.config.sources import ConfigSource, parse, read_sources

__all__ = ["Loaded", "load"]


def load(
    paths: Sequence[str], flags: Mapping[str, object], *, hostname: Callable[[], str] = socket.gethostname
) -> Loaded:
    """Files and folders in their order, then flags (`flags.parse_agent_flags`). Raises `ConfigErrors`."""
    errors: list[ConfigError] = []
    sources = read_sources(paths, str(flags.get("config_format", "")), errors)
    sources.append(flag_source(flags))
    hcl = flags.get("hcl", ())
    assert isinstance(hcl, list | tuple)
    for text in hcl:  # they have the last word, as in Consul
        try:
            sources.append(ConfigSource("flag -hcl", parse(text, "hcl")))
        except UnreadableFile as problem:
            errors.append(ConfigError("flag -hcl", str(problem)))
    has_unread = bool(errors)
    settings = merge([settings_of(source, errors) for source in sources])
    try:
        return build(settings, errors, is_dev=flags.get("dev") is True, hostname=hostname)
    except ConfigErrors as problem:
        if not has_unread:
            raise
        # What seems to be missing may stand in the file that could not be read.
        raise ConfigErrors([each for each in problem.errors if each.place != "data_dir"]) from None
