"""Who asked what, and what the answer was, so that a repeated request is answered and not run twice.

One row for each agent that accepts requests, bounded in bytes together. When a row is put out, the floor
rises to the newest revision in it. A request whose answer is not here and which began before the floor may
have been done: its first attempt can be begun anew, for nobody acts on an earlier one; of a later attempt
nobody can tell. Without the floor a row put out would look like an agent that never asked, and its repeated
request would run twice. The same holds for what a later run of the agent has replaced.
"""

from __future__ import annotations

from collections import OrderedDict

from adsum.dedup import DedupKey
from adsum.kv import StoreOutcome

RESULT_OVERHEAD_BYTES = 100
RESULT_BYTES_MAX = 4096  # a longer answer is kept without its records


class ResultRow:
    __slots__ = ("answers", "generation", "low_water", "newest")

    def __init__(self, generation: int) -> None:
        self.generation = generation  # of the agent's run
        self.low_water = 0  # answers below it are not asked for any more
        self.newest = 0  # revision
        self.answers: dict[int, bytes] = {}  # by sequence

    def below(self, low_water: int) -> list[int]:
        """The answers here that are below it. None is below the present one, which mostly moves by one."""
        moved = range(self.low_water, low_water)
        if len(moved) < len(self.answers):
            return [each for each in moved if each in self.answers]
        return [each for each in self.answers if each < low_water]


class ResultTable:
    def __init__(self, bytes_max: int, floor: int = 0) -> None:
        self.bytes_max = bytes_max
        self.floor = floor
        self.rows: OrderedDict[str, ResultRow] = OrderedDict()  # by client; oldest newest revision first
        self.bytes_total = 0

    def find(self, key: DedupKey, *, seen: int) -> bytes | StoreOutcome | None:
        """The answer it was given; or why it cannot be run now; None if it is new."""
        row = self.rows.get(key.client)
        if row is not None and key.generation < row.generation:
            return StoreOutcome.UNKNOWN if key.attempt else StoreOutcome.OLD_GENERATION
        if row is not None and key.generation == row.generation:
            answer = row.answers.get(key.sequence)
            if answer is not None:
                return answer
            if key.sequence < row.low_water:
                return StoreOutcome.UNKNOWN
        if seen < self.floor:
            return StoreOutcome.UNKNOWN if key.attempt else StoreOutcome.NOT_DONE
        return None

    def generation_of(self, client: str) -> int:
        return self.rows[client].generation

    def keep(self, key: DedupKey, answer: bytes, revision: int) -> None:
        row = self.rows.get(key.client)
        if row is None or row.generation < key.generation:
            self._take_out(key.client)
            row = self.rows[key.client] = ResultRow(key.generation)
        row.answers[key.sequence] = answer
        row.newest = revision
        self.bytes_total += RESULT_OVERHEAD_BYTES + len(answer)
        if key.low_water > row.low_water:
            for sequence in row.below(key.low_water):
                self.bytes_total -= RESULT_OVERHEAD_BYTES + len(row.answers.pop(sequence))
            row.low_water = key.low_water
        self.rows.move_to_end(key.client)
        while self.bytes_total > self.bytes_max:
            client, oldest = next(iter(self.rows.items()))
            self.floor = max(self.floor, oldest.newest)
            self._take_out(client)

    def load(
        self, client: str, generation: int, low_water: int, newest: int, answers: dict[int, bytes]
    ) -> None:
        """From a snapshot, in its order."""
        row = self.rows[client] = ResultRow(generation)
        row.low_water, row.newest, row.answers = low_water, newest, answers
        self.bytes_total += sum(RESULT_OVERHEAD_BYTES + len(answer) for answer in answers.values())

    def _take_out(self, client: str) -> None:
        row = self.rows.pop(client, None)
        if row is not None:
            self.bytes_total -= sum(RESULT_OVERHEAD_BYTES + len(answer) for answer in row.answers.values())
