"""`adsum completion SHELL`: a script that completes commands, flags and their choices, made from what the
commands declare.

The script holds everything itself, so that the Tab key starts no Python. Flags are completed with one dash.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from adsum.cli.command import Command, CommandFlag, ParsedCommand, UsageError
from adsum.cli.main import COMMANDS, load_command

Commands = Mapping[str, Command]

HINTS = {
    "bash": "To have it now: source <(adsum completion bash). For good: put that line into ~/.bashrc.",
    "zsh": "To have it now: source <(adsum completion zsh). For good: put that line into ~/.zshrc.",
    "fish": "For good: adsum completion fish > ~/.config/fish/completions/adsum.fish",
}

# Bash splits `-o=json` into three words. Where nothing is known, files are offered (-o default).
BASH = """\
_adsum() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} name=${COMP_WORDS[1]} words= line
    if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
    COMPREPLY=()
    if (( COMP_CWORD == 1 )); then
        words='@FIRST@'
    else
        case $name in
@SECOND@
        esac
        if [[ -z $words ]]; then
            case "$name ${before/#--/-}" in
@CHOICES@
            esac
        fi
        if [[ -z $words && $word == -* ]]; then
            case $name in
@FLAGS@
            esac
        fi
    fi
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -W "$words" -- "$word")
}
complete -o default -F _adsum adsum
"""

ZSH = """\
#compdef adsum
_adsum() {
    local name=$words[2]
    local -a names
    if (( CURRENT == 2 )); then
        names=(@FIRST@)
        _describe command names
        return
    fi
    local -i used=2
    case $name in
@SECOND@
    esac
    shift $(( used - 1 )) words
    (( CURRENT -= used - 1 ))
    case $name in
@FLAGS@
    esac
}
compdef _adsum adsum
"""

# The words so far are compared from the first: `services` is a command and the end of another.
FISH = """\
function __adsum_words
    set -l words (commandline -opc)
    set -e words[1]
    echo "$words "
end
function __adsum_is
    test (__adsum_words) = "$argv "
end
function __adsum_begins
    string match -q -- "$argv *" (__adsum_words)
end"""


def run(call: ParsedCommand) -> int:
    shell = call.words[0]
    if shell not in WRITERS:
        raise UsageError(f"there is none for {shell}, only for {', '.join(WRITERS)}")
    commands = {name: load_command(name) for name in COMMANDS}
    print(WRITERS[shell](commands), end="")
    if sys.stdout.isatty():
        print(HINTS[shell], file=sys.stderr)
    return 0


def bash(commands: Commands) -> str:
    choices = [
        f"'{name} -{flag.name}') words='{' '.join(flag.choices)}' ;;"
        for name, command in commands.items()
        for flag in command.all_flags().values()
        if flag.choices
    ]
    flags = []
    for name, command in commands.items():
        dashed = " ".join(f"-{flag}" for flag in command.all_flags())
        flags.append(f"'{name}') words='{dashed}' ;;")
    second = [
        f"{first}) if (( COMP_CWORD == 2 )); then words='{' '.join(names)}'; "
        f'else name="{first} ${{COMP_WORDS[2]}}"; fi ;;'
        for first, names in _groups().items()
    ]
    return _filled(BASH, FIRST=" ".join(_first_words()), SECOND=second, CHOICES=choices, FLAGS=flags)


def zsh(commands: Commands) -> str:
    second = [
        f'{group}) used=3; name="{group} $words[3]"\n'
        f"            if (( CURRENT == 3 )); then\n"
        f"                names=({_zsh_names(names)})\n"
        f"                _describe command names\n"
        f"                return\n"
        f"            fi ;;"
        for group, names in _groups().items()
    ]
    flags = []
    for name, command in commands.items():
        shown = " ".join(map(_zsh_flag, command.all_flags().values()))
        flags.append(f"{_quoted(name)}) _arguments {shown} '*:file:_files' ;;")
    return _filled(ZSH, FIRST=_zsh_names(_first_words()), SECOND=second, FLAGS=flags)


def fish(commands: Commands) -> str:
    lines = [FISH]
    lines += [_fish_word("", word, sentence) for word, sentence in _first_words().items()]
    for first, names in _groups().items():
        lines += [_fish_word(first, name, sentence) for name, sentence in names.items()]
    for name, command in commands.items():
        lines += [_fish_flag(name, flag) for flag in command.all_flags().values()]
    return "\n".join(lines) + "\n"


WRITERS = {"bash": bash, "zsh": zsh, "fish": fish}


def _first_words() -> dict[str, str]:
    """A word that begins several commands is told with what follows it."""
    groups = _groups()
    return {
        name.split()[0]: ", ".join(groups[name.split()[0]]) if " " in name else sentence
        for name, sentence in COMMANDS.items()
    }


def _groups() -> dict[str, dict[str, str]]:
    groups: dict[str, dict[str, str]] = {}
    for name, sentence in COMMANDS.items():
        first, _, second = name.partition(" ")
        if second:
            groups.setdefault(first, {})[second] = sentence
    return groups


def _zsh_names(names: Mapping[str, str]) -> str:
    return " ".join(_quoted(f"{name}:{sentence}") for name, sentence in names.items())


def _zsh_flag(flag: CommandFlag) -> str:
    help_text = flag.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
    often = "*" if flag.is_repeatable else ""
    if not flag.value:
        return _quoted(f"{often}-{flag.name}[{help_text}]")
    action = f"({' '.join(flag.choices)})" if flag.choices else "_files" if flag.value == "FILE" else " "
    return _quoted(f"{often}-{flag.name}=[{help_text}]:{flag.value}:{action}")


def _fish_word(after: str, word: str, sentence: str) -> str:
    condition = f'__adsum_is "{after}"'
    return f"complete -c adsum -n {_quoted(condition)} -f -a {word} -d {_quoted(sentence)}"


def _fish_flag(name: str, flag: CommandFlag) -> str:
    kind = "-s" if len(flag.name) == 1 else "-o"
    value = f" -x -a {_quoted(' '.join(flag.choices))}" if flag.choices else " -r" if flag.value else ""
    condition = f'__adsum_begins "{name}"'
    return f"complete -c adsum -n {_quoted(condition)} {kind} {flag.name}{value} -d {_quoted(flag.help)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "’") + "'"


def _filled(template: str, **parts: str | list[str]) -> str:
    for name, part in parts.items():
        text = part if isinstance(part, str) else "\n".join(" " * 12 + line for line in part)
        template = template.replace(f"@{name}@", text)
    return template


COMMAND = Command(run, arguments="SHELL", about="SHELL is bash, zsh or fish.\n" + "\n".join(HINTS.values()))
