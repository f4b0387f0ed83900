"""The network between simulated hosts: what becomes of a datagram or a message, and of a connection.

Latency, loss, partitions, links cut in one direction, duplication and reordering, all from one Random. A host
that is up without the process answers datagrams with an ICMP error and connections with a reset; a host
that is down or cut off answers nothing. Connections survive loss as TCP does: what is lost costs a
retransmission, not the connection."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from adsum.now import MILLISECOND, SECOND

SYN_AGAIN_NS = SECOND  # the first retransmission of a connection attempt; then twice as long each time
SEGMENT_AGAIN_NS = 200 * MILLISECOND
CONNECT_TRIES_MAX = 6


@dataclass(frozen=True, slots=True)
class Conditions:
    latency_ns: int = 500_000  # one way, at least
    jitter_ns: int = 500_000  # up to so much more, evenly
    loss: float = 0.0
    duplicated: float = 0.0
    reordered: float = 0.0  # this share takes up to ten times as long
    held_back: float = 0.0  # and this for up to so long that elections overtake it
    held_back_ns: int = 3 * SECOND


class Network:
    def __init__(self, random: Random, conditions: Conditions) -> None:
        self.conditions = conditions
        self.lost = 0
        self._random = random
        self._sides: dict[int, int] = {}  # host → side of a partition; those not named share one
        self._one_way: dict[tuple[int, int], float] = {}
        self._host_loss: dict[int, float] = {}

    # Trouble.

    def partition(self, *sides: range | list[int]) -> None:
        self._sides = {host: number for number, side in enumerate(sides) for host in side}

    def take_side(self, host: int, beside: int) -> None:
        """In the partition that holds now: whoever is on no side is cut off from all that are on one."""
        if beside in self._sides:
            self._sides[host] = self._sides[beside]

    def heal(self) -> None:
        """All that was cut."""
        self._sides, self._one_way = {}, {}

    def cut(self, sender: int, receiver: int) -> None:
        """In this direction only."""
        self.lose_one_way(sender, receiver, 1.0)

    def lose_one_way(self, sender: int, receiver: int, share: float) -> None:
        self._one_way[sender, receiver] = share

    def lose_at(self, host: int, share: float) -> None:
        """All that this host sends and gets."""
        self._host_loss[host] = share

    # Fates.

    def is_cut(self, one: int, other: int) -> bool:
        sides = self._sides
        return bool(sides) and sides.get(one, -1) != sides.get(other, -1)

    def delays_ns(self, sender: int, receiver: int) -> tuple[int, ...]:
        """One per copy that arrives: usually one, none when lost."""
        random, conditions = self._random.random, self.conditions
        if self.is_cut(sender, receiver) or random() < self._loss(sender, receiver):
            self.lost += 1
            return ()
        delay_ns = conditions.latency_ns + int(random() * conditions.jitter_ns)
        if conditions.reordered and random() < conditions.reordered:
            delay_ns += int(random() * 10 * delay_ns)
        if conditions.held_back and random() < conditions.held_back:
            delay_ns += int(random() * conditions.held_back_ns)
        if conditions.duplicated and random() < conditions.duplicated:
            return delay_ns, delay_ns + int(random() * 10 * delay_ns)
        return (delay_ns,)

    def connect_ns(self, sender: int, receiver: int) -> int | None:
        """Until the connection stands or is reset; None when nothing comes back."""
        if self.is_cut(sender, receiver):
            return None
        waited_ns = self._tried_ns(SYN_AGAIN_NS, (sender, receiver), (receiver, sender))
        return waited_ns + self._way_ns() + self._way_ns() if waited_ns is not None else None

    def exchange_ns(self, sender: int, receiver: int) -> int | None:
        """One message each way on a standing connection."""
        there_ns, back_ns = self.turn_ns(sender, receiver), self.turn_ns(receiver, sender)
        return there_ns + back_ns if there_ns is not None and back_ns is not None else None

    def turn_ns(self, sender: int, receiver: int) -> int | None:
        if self.is_cut(sender, receiver):
            return None
        way_ns, waited_ns = self._way_ns(), self._tried_ns(SEGMENT_AGAIN_NS, (sender, receiver))
        return way_ns + waited_ns if waited_ns is not None else None

    def _tried_ns(self, again_ns: int, *ways: tuple[int, int]) -> int | None:
        """How long until nothing is lost on any of these."""
        waited_ns = 0
        for _try in range(CONNECT_TRIES_MAX):
            if not any(self._is_lost(*way) for way in ways):
                return waited_ns
            waited_ns = again_ns + 2 * waited_ns
        return None

    def _way_ns(self) -> int:
        return self.conditions.latency_ns + int(self._random.random() * self.conditions.jitter_ns)

    def _is_lost(self, sender: int, receiver: int) -> bool:
        return self._random.random() < self._loss(sender, receiver)

    def _loss(self, sender: int, receiver: int) -> float:
        if not self._one_way and not self._host_loss:
            return self.conditions.loss
        return max(
            self.conditions.loss,
            self._one_way.get((sender, receiver), 0.0),
            self._host_loss.get(sender, 0.0),
            self._host_loss.get(receiver, 0.0),
        )
