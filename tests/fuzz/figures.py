"""What was sent and how near the limits it came, in a line for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.fuzz.cluster import Attacked


@dataclass(slots=True)
class Figures:
    sent: Counter[str] = field(default_factory=Counter)
    answers_given: int = 0
    folders: int = 0
    starts: int = 0  # of the folders, those that did not end in a refusal
    longest_s: float = 0.0
    growth_mb: float = 0.0
    memory_mb: float = 0.0

    def add(self, attacked: Attacked) -> None:
        self.sent += attacked.sent
        self.answers_given += attacked.member.answered
        for each in attacked.watched:
            self.longest_s = max(self.longest_s, each.longest_s)
            self.growth_mb = max(self.growth_mb, each.last_mb - each.first_mb)
            self.memory_mb = max(self.memory_mb, each.last_mb)

    def add_folder(self, *, is_started: bool) -> None:
        self.folders += 1
        self.starts += is_started

    def __str__(self) -> str:
        parts = []
        if self.sent:
            doors = ", ".join(f"{count:,} {door}" for door, count in sorted(self.sent.items()))
            parts += [
                f"inputs by door: {doors}, and agents asked for {self.answers_given:,} answers",
                f"longest pass {self.longest_s * 1_000:.0f} ms of processor time",
                f"memory +{self.growth_mb:.0f} MB, to {self.memory_mb:.0f} MB",
            ]
        if self.folders:
            parts.append(f"{self.folders} data folders, with {self.starts} of them the agent started")
        return "; ".join(parts)
