"""How a write is known again when it is repeated, and how an agent numbers those that it accepts.

Who retries is who is remembered: the agent that a client asked names each write, and a repeated one has the
same name. An answer is kept by the store until the agent says that nobody will ask for it any more: it shows
the oldest of its writes that is still open, the low water, with each of them.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class DedupKey(Struct, frozen=True, gc=False, array_like=True):
    """Names a request across retries. Results at and above `low_water` may still be asked for again. Each
    entry of the log in memory has one, and the garbage collector has nothing to find in them."""

    client: str  # the agent that accepted the request; 1 to CLIENT_BYTES_MAX bytes
    generation: int
    sequence: int
    low_water: int
    attempt: int = 0  # counted by whoever retries: a later one may meet what an earlier one did

    @property
    def name(self) -> tuple[str, int, int]:
        """The same in all attempts."""
        return self.client, self.generation, self.sequence

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """What follows on the client, in the log and on the wire."""
        return self.generation, self.sequence, self.low_water, self.attempt

    def again(self) -> DedupKey:
        return replace(self, attempt=self.attempt + 1)


class WriteNumbers:
    """Of one run of an agent."""

    def __init__(self, client: str, generation: int) -> None:
        self.generation = generation
        self._client = client
        self._sequence = 0
        self._open: dict[int, None] = {}  # sequences, rising

    def begin(self) -> DedupKey:
        self._sequence += 1
        self._open[self._sequence] = None
        return DedupKey(self._client, self.generation, self._sequence, next(iter(self._open)))

    def end(self, key: DedupKey) -> None:
        """Nobody will ask for its result any more."""
        if key.generation == self.generation:
            self._open.pop(key.sequence, None)

    def pass_over(self, generation: int) -> None:
        """A run of that generation has asked already: this one counts as a later one. If it is our own, an
        earlier write was told the same, and all go on together."""
        if generation > self.generation:
            self.generation = generation + 1
            self._sequence = 0
            self._open.clear()
