"""One measured figure beside its target, as a line that reads in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """`value` is what the target judges: a ratio, or a plain number where Consul has no part."""

    name: str
    ours: str
    consul: str
    value: float
    target: str
    reached: bool | None
    """None where the figure only informs."""

    def line(self) -> str:
        verdict = "" if self.reached is None else "  PASS" if self.reached else "  FALLS SHORT"
        ratio = f"{self.value:.2f} ×" if self.consul and self.value else ""
        return f"{self.name:<44} {self.ours:>12} {self.consul:>12} {ratio:>8}  {self.target}{verdict}"


def heading(peer: str = "Consul") -> str:
    return f"{'figure':<44} {'Adsum':>12} {peer:>12} {'ratio':>8}  target"


def summary(figures: Sequence[Figure], broken: Sequence[str], seconds: float, *, name: str = "bench") -> str:
    """The last line."""
    judged = [figure for figure in figures if figure.reached is not None]
    short = [figure.name.strip() for figure in judged if not figure.reached]
    text = (
        f"{name} in {seconds:.0f} s: {len(judged) - len(short)} of {len(judged)} figures reach their target"
    )
    text += f"; short: {', '.join(short)}" if short else ""
    return text + (f"; not measured: {', '.join(broken)}" if broken else "")


def at_least(name: str, ours: float, consul: float, factor: float, unit: Callable[[float], str]) -> Figure:
    ratio = ours / consul
    return Figure(name, unit(ours), unit(consul), ratio, f"at least {factor} ×", ratio >= factor)


def at_most(name: str, ours: float, consul: float, factor: float, unit: Callable[[float], str]) -> Figure:
    ratio = ours / consul
    return Figure(name, unit(ours), unit(consul), ratio, f"at most {factor} ×", ratio <= factor)


def limit(name: str, ours: float, limit: float, unit: Callable[[float], str]) -> Figure:
    return Figure(name, unit(ours), "", ours, f"at most {unit(limit)}", ours <= limit)


def informs(name: str, ours: float, consul: float | None, unit: Callable[[float], str]) -> Figure:
    ratio = ours / consul if consul else 0.0
    return Figure(name, unit(ours), unit(consul) if consul else "", ratio, "for information", None)


def plain(value: float) -> str:
    return f"{value:.0f}"


def per_second(value: float) -> str:
    return f"{value:,.0f}/s"


def megabytes(value: float) -> str:
    return f"{value:.1f} MB"


def microseconds(value: float) -> str:
    return f"{value:.1f} µs"


def milliseconds(value: float) -> str:
    return f"{value:.1f} ms"


def seconds(value: float) -> str:
    return f"{value:.2f} s"


def kilobytes(value: float) -> str:
    return f"{value:.1f} KB"


def cores(value: float) -> str:
    return f"{value:.2f} cores"
