"""Makes the table of figures in docs/simulation.md: each row is one `adsum simulate` command and its answer.

    python tools/simulated_figures.py RESULTS [FIRST LAST]

RESULTS is a folder that keeps what each command printed, so that rows can be made one at a time, the long
ones in the background; delete what should be made again. Only the rows from FIRST to LAST are run, all if
they are not given, and the page is written anew from whatever there is. Run it when the roll has changed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).resolve().parent.parent / "docs" / "simulation.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
Results = dict[str, Any]


class Row(NamedTuple):
    options: str
    shows: str  # news, verdicts, view, cost; false verdicts always
    target: str = ""


FLAT = "cost within 20 % of 50 members'"
SMALL_COST = "-nodes 50 -minutes 10"
ROWS = (
    Row(
        "-nodes 1000 -minutes 30",
        "news cost",
        f"99 % ≤ 1.0, all ≤ 2.0; 0 false; {FLAT}",
    ),
    Row("-nodes 1000 -minutes 5", "news cost", "the same, of a shorter run"),
    Row("-nodes 200 -minutes 10", "news cost", FLAT),
    Row(SMALL_COST, "news cost", ""),
    Row("-nodes 1000 -minutes 2 -scenario host-loss", "verdicts", "first mean ≤ 14.5, p95 ≤ 16"),
    Row("-nodes 1000 -minutes 2 -scenario crash", "verdicts", "first p95 ≤ 3"),
    Row("-nodes 128 -minutes 2.5 -loss 0 -scenario slow-members -seeds 1-5", "", "≤ 5 false in all five"),
    Row("-nodes 15 -minutes 30 -scenario crash", "verdicts"),
    Row("-nodes 15 -minutes 30 -scenario host-loss", "verdicts"),
    Row("-nodes 50 -minutes 0.5 -scenario cold-start -seeds 1-5", "view", "≤ 10"),
    Row("-nodes 50 -minutes 0.5 -scenario all-restart -seeds 1-5", "view", "≤ 10"),
    Row("-nodes 1000 -minutes 0.7 -scenario cold-start", "view"),
    Row("-nodes 100 -minutes 3 -scenario partition", "view"),
    Row("-nodes 100 -minutes 5 -scenario restart", ""),
    Row("-nodes 100 -minutes 5 -scenario one-way", ""),
    Row("-nodes 100 -minutes 5 -scenario flip-flop", ""),
    Row("-nodes 100 -minutes 5 -scenario pause", ""),
    Row("-nodes 100 -minutes 5 -scenario pause -suspicion-mult 2", ""),
    Row("-nodes 100 -minutes 5 -scenario host-loss", "verdicts"),
    Row("-nodes 100 -minutes 5 -scenario host-loss -suspicion-mult 2", "verdicts"),
)


def main() -> int:
    results = Path(sys.argv[1])
    results.mkdir(parents=True, exist_ok=True)
    first, last = (int(each) for each in sys.argv[2:4]) if len(sys.argv) > 3 else (1, len(ROWS))
    for row in ROWS[first - 1 : last]:
        make(row, results)
    made = {row.options: json.loads(text) for row in ROWS if (text := _read(results, row))}
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}{table(made)}{END}{after}")
    print(f"{len(made)} of {len(ROWS)} rows are made; wrote docs/simulation.md")
    return 0


def make(row: Row, results: Path) -> None:
    if _read(results, row):
        return
    words = [str(Path(sys.executable).with_name("adsum")), "simulate", *row.options.split(), "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    _place(results, row).write_text(done.stdout)
    print(row.options, flush=True)


def table(made: dict[str, Results]) -> str:
    lines = ["| `adsum simulate …` | figures | wanted |", "| --- | --- | --- |"]
    for row in ROWS:
        figures = "; ".join(facts(row, made)) if row.options in made else "not finished for this page"
        lines.append(f"| `{row.options}` | {figures} | {row.target} |")
    return "\n".join(lines) + "\n"


def facts(row: Row, made: dict[str, Results]) -> list[str]:
    run = made[row.options]
    told: list[str] = []
    if "news" in row.shows:
        late = f", {run['updates_late']} late" if run["updates_late"] else ""
        told += [f"99 % {_spread(run['update_99'])}", f"all {_spread(run['update_all'])}{late}"]
    if "verdicts" in row.shows:
        told += [f"first {_spread(run['verdict_first'])}", f"99 % {_spread(run['verdict_99'])}"]
        told += [f"all {_spread(run['verdict_all'])}", f"{run['verdict_first']['count']} events"]
    if "view" in row.shows:
        after_s = run["one_view_after_s"]
        told.append("no one view" if after_s is None else f"one view after {after_s:.1f}")
    if "cost" in row.shows:
        told.append(_cost(run, made.get(SMALL_COST)))
    told.append(f"{run['false_verdicts']:,} false")
    return told


def _spread(spread: Results) -> str:
    return f"mean {spread['mean_s']:.2f} p95 {spread['p95_s']:.2f} max {spread['max_s']:.2f}"


def _cost(run: Results, small: Results | None) -> str:
    messages, data = run["messages_per_s"], run["bytes_per_s"]
    told = f"{messages['mean']:.1f} messages/s (p99 {messages['p99']:.1f}), {data['mean']:,.0f} B/s"
    if small is None or small is run:
        return told
    more = [run[key]["mean"] / small[key]["mean"] - 1 for key in ("messages_per_s", "bytes_per_s")]
    return f"{told} ({more[0]:+.0%} and {more[1]:+.0%} of 50 members')"


def _place(results: Path, row: Row) -> Path:
    return results / f"{row.options.replace(' ', '_')}.json"


def _read(results: Path, row: Row) -> str:
    place = _place(results, row)
    return place.read_text() if place.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
