"""Writes those parts of docs/ that are made from code. Run it when a metric or a command changed.

tests/house/test_written_pages.py says when that is. What people wrote around the parts stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from adsum.cli.command import Command, CommandFlag
from adsum.cli.main import COMMANDS, load_command
from adsum.observe.consensus_metrics import CONSENSUS
from adsum.observe.consul_metrics import CONSUL
from adsum.observe.consul_server_metrics import CONSUL_SERVERS
from adsum.observe.forward_metrics import FORWARDING
from adsum.observe.metrics import ADSUM
from adsum.observe.series import Series
from adsum.observe.session_metrics import SESSIONS

DOCS = Path(__file__).resolve().parent.parent / "docs"


def main() -> int:
    for name, page in written().items():
        (DOCS / name).write_text(page)
        print(f"wrote docs/{name}")
    return 0


def written() -> dict[str, str]:
    """Each page as it should be."""
    metrics, commands = (DOCS / "metrics.md").read_text(), (DOCS / "command-line.md").read_text()
    every = {
        "table": ADSUM,
        "clients": FORWARDING,
        "servers": (*CONSENSUS, *SESSIONS),
        "consul": CONSUL,
        "consul-servers": CONSUL_SERVERS,
    }
    for name, series in every.items():
        metrics = put(metrics, name, series_table(series))
    return {
        "metrics.md": metrics,
        "command-line.md": put(commands, "commands", command_sections()),
    }


def put(page: str, name: str, text: str) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}{text}{end}{rest.partition(end)[2]}"


def series_table(every: Iterable[Series]) -> str:
    rows = [(f"`{each.name}`", each.kind.value, quoted(each.labels), each.help) for each in every]
    return table(("name", "kind", "labels", "meaning"), rows)


def command_sections() -> str:
    return "\n".join(section(name, sentence, load_command(name)) for name, sentence in COMMANDS.items())


def section(name: str, sentence: str, command: Command) -> str:
    usage = " ".join(filter(None, ("adsum", name, command.arguments)))
    parts = [f"### `{usage}`\n\n{sentence}.\n"]
    if command.about:
        parts.append(command.about.strip() + "\n")
    if command.flags:
        parts.append(table(("flag", "meaning"), [(synopsis(flag), told(flag)) for flag in command.flags]))
    return "\n".join(parts)


def synopsis(flag: CommandFlag) -> str:
    return f"`-{flag.name}={flag.value}`" if flag.value else f"`-{flag.name}`"


def told(flag: CommandFlag) -> str:
    choices = f" One of {quoted(flag.choices)}." if flag.choices else ""
    return flag.help + choices + (" May be given again." if flag.is_repeatable else "")


def quoted(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    sys.exit(main())
