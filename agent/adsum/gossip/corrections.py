"""What a teller of old news should know instead; it goes back with the answer to its datagram."""

from __future__ import annotations

from adsum.gossip.tally import GossipTally

CORRECTIONS_MAX = 8


class Corrections:
    def __init__(self, tally: GossipTally) -> None:
        self._tally = tally
        self._by_subject: dict[bytes, bytes] = {}

    def __bool__(self) -> bool:
        return bool(self._by_subject)

    def put(self, subject: bytes, encoded: bytes) -> None:
        if len(self._by_subject) >= CORRECTIONS_MAX:
            self._tally.answers_cut += 1
        else:
            self._by_subject[subject] = encoded

    def take(self) -> tuple[bytes, ...]:
        taken, self._by_subject = tuple(self._by_subject.values()), {}
        return taken
