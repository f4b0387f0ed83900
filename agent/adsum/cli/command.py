"""What a command is: its flags and arguments, declared once. Parsing, help and completion all read them.

One dash or two, `-flag=value` or `-flag value`, and `-flag` alone for yes: as Go takes them, since that is
what existing scripts hold. Flags may also follow arguments, unless those may look like flags themselves.
argparse cannot be asked: it takes the slip `-htttp-port=1` for `-h`. Here every word is held against the
known flags, and a slip is answered with the nearest.

Named tuples, because importing `dataclasses` alone costs a third of what `adsum version` may take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from adsum.named import NamedTuple

OK, FAILURE, USAGE, NOT_FOUND, UNREACHABLE = 0, 1, 2, 3, 4

# Go's strconv.ParseBool
TRUE = ("1", "t", "T", "TRUE", "true", "True")
FALSE = ("0", "f", "F", "FALSE", "false", "False")
HELP_FLAGS = ("h", "help")
SIMILARITY_MIN = 0.65  # at difflib's own 0.6 "elect" is nearest to "event", which is nothing to suggest


class CommandFailed(Exception):
    """The command could not do what was asked; the sentence says why and what to do next."""

    status = FAILURE


class UsageError(CommandFailed):
    """The command line cannot be understood; nothing was done."""

    status = USAGE


class NotFound(CommandFailed):
    status = NOT_FOUND


class HelpWanted(Exception):
    """Somebody asked what the command does instead of calling it."""


class CommandFlag(NamedTuple):
    name: str
    help: str
    value: str = ""  # what stands for its value in help; a flag without one is a switch
    is_repeatable: bool = False
    choices: tuple[str, ...] = ()


class FlagGroup(NamedTuple):
    """Flags that several commands share, under a heading of their own."""

    title: str
    flags: tuple[CommandFlag, ...]


class ParsedCommand(NamedTuple):
    words: Sequence[str]
    values: Mapping[str, Sequence[str]]

    def text(self, flag: str, default: str = "") -> str:
        return self.values[flag][-1] if flag in self.values else default

    def texts(self, flag: str) -> Sequence[str]:
        return self.values.get(flag, ())

    def is_on(self, flag: str) -> bool:
        return self.text(flag) in TRUE


class Command(NamedTuple):
    run: Callable[[ParsedCommand], int]
    arguments: str = ""  # as help shows them: `NAME`, `[NAME]` when it may be left out, `NAME…` for several
    flags: tuple[CommandFlag, ...] = ()
    groups: tuple[FlagGroup, ...] = ()
    about: str = ""  # what help says beyond the command's sentence
    flags_come_first: bool = False  # what follows an argument is one too, though it may begin with a dash
    is_raw: bool = False  # `run` wants the words unread, and raises `HelpWanted` itself

    def all_flags(self) -> dict[str, CommandFlag]:
        groups = (FlagGroup("", self.flags), *self.groups)
        return {flag.name: flag for group in groups for flag in group.flags}


def parse(command: Command, words: Sequence[str]) -> ParsedCommand:
    """Raises `UsageError` and `HelpWanted`."""
    if command.is_raw:
        return ParsedCommand(words, {})
    flags, arguments, values = command.all_flags(), list[str](), dict[str, list[str]]()
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            arguments += waiting
            break
        if not word.startswith("-") or word == "-":  # a dash alone is the standard input
            arguments.append(word)
            if command.flags_come_first:
                arguments += waiting
                break
            continue
        flag, value = _read_flag(word, flags, waiting)
        values.setdefault(flag.name, []).append(value)
    _check_count(command, arguments)
    return ParsedCommand(arguments, values)


def _read_flag(word: str, flags: Mapping[str, CommandFlag], waiting: list[str]) -> tuple[CommandFlag, str]:
    name, has_value, value = word.removeprefix("-").removeprefix("-").partition("=")
    if name not in flags:
        if name in HELP_FLAGS:
            raise HelpWanted
        raise UsageError(f"there is no flag -{name}{did_you_mean(name, flags, before='-')}")
    flag = flags[name]
    if not flag.value:
        value = value if has_value else "true"
        if value not in TRUE + FALSE:
            raise UsageError(f'the flag -{name} is true or false, not "{value}"')
    elif not has_value:
        if not waiting:
            raise UsageError(f"the flag -{name} needs a value: -{name}={flag.value}")
        value = waiting.pop(0)
    if flag.choices:
        value = next((choice for choice in flag.choices if choice.lower() == value.lower()), value)
    if flag.choices and value not in flag.choices:
        raise UsageError(f'the flag -{name} takes {", ".join(flag.choices)}, not "{value}"')
    return flag, value


def _check_count(command: Command, arguments: Sequence[str]) -> None:
    shown = command.arguments.split()
    needed = [each for each in shown if not each.startswith("[")]
    if len(arguments) < len(needed):
        raise UsageError(f"{needed[len(arguments)].rstrip('…')} is missing")
    if len(arguments) > len(shown) and not command.arguments.rstrip("]").endswith("…"):
        extra = arguments[len(shown)]
        raise UsageError(f'there is nothing to do with "{extra}"')


def did_you_mean(word: str, known: Sequence[str] | Mapping[str, object], *, before: str = "") -> str:
    from difflib import get_close_matches  # only for those who slipped

    nearest = get_close_matches(word, list(known), n=1, cutoff=SIMILARITY_MIN)
    return f"; did you mean {before}{nearest[0]}?" if nearest else ""
