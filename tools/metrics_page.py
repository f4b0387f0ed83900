"""Writes the tables of docs/metrics.md from the code that counts: run it when a metric changed.

tests/house/test_metrics_page.py says when that is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from adsum.observe.consul_metrics import CONSUL
from adsum.observe.metrics import ADSUM
from adsum.observe.series import Series

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"


def main() -> int:
    PAGE.write_text(filled(PAGE.read_text()))
    print(f"wrote {len(ADSUM) + len(CONSUL)} rows into {PAGE.name}")
    return 0


def filled(page: str) -> str:
    return put(put(page, "table", ADSUM), "consul", CONSUL)


def put(page: str, name: str, every: Iterable[Series]) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}{table(every)}{end}{rest.partition(end)[2]}"


def table(every: Iterable[Series]) -> str:
    rows = [f"| `{each.name}` | {each.kind.value} | {labels(each)} | {each.help} |\n" for each in every]
    return "| name | kind | labels | meaning |\n|---|---|---|---|\n" + "".join(rows)


def labels(series: Series) -> str:
    return ", ".join(f"`{label}`" for label in series.labels)


if __name__ == "__main__":
    sys.exit(main())
