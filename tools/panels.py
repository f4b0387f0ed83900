"""What a board is made of: rows of panels, each a title, a sentence that says how to read it, a unit, and its
queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Query:
    legend: str
    expr: str  # `@` is for the agents that are selected, `[~]` for the interval that rates are taken over


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    about: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    width: int = 8
    height: int = 7
    bad_from: float | None = None  # shown in red from this value on


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


def panel(title: str, about: str, unit: str, *queries: tuple[str, str], **looks: Any) -> Panel:
    return Panel(title, about, unit, tuple(Query(*each) for each in queries), **looks)


def stat(title: str, about: str, expr: str, bad_from: float | None = None) -> Panel:
    return panel(title, about, "short", ("", expr), kind="stat", width=4, height=4, bad_from=bad_from)


def quantiles(name: str, window: str, *shares: float) -> tuple[tuple[str, str], ...]:
    return tuple(
        (
            f"p{share * 100:g}",
            f"histogram_quantile({share}, sum by (le) (rate({name}_bucket{{@}}[{window}])))",
        )
        for share in shares
    )
