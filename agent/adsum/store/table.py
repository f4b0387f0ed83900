"""Keys in bytewise order and what stands under each, for a million of them.

Blocks of at most 256 keys lie side by side, with the last key of each but the last in a list of their own: a
key is found by two bisections, and no step touches all keys. A dict would rehash half a second at a million.
Blocks are copied when they are first changed after `freeze`, so a frozen view costs two short lists and stays
as it was. Their keys are copied only when one comes or goes: most writes change what stands under a key.

Each block knows the newest revision among its entries, their highest fence and their bytes, so those of a
range are read off whole blocks, and only the two at its ends are walked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

BLOCK_KEYS_MAX = 256
BLOCK_KEYS_JOINED = BLOCK_KEYS_MAX // 4  # below it a block is joined with a neighbour that has room


class TableEntry(Protocol):
    @property
    def modify(self) -> int: ...

    @property
    def bytes_total(self) -> int:
        """Without the key."""

    @property
    def fence(self) -> int: ...


V = TypeVar("V", bound=TableEntry)
_newest_of = attrgetter("newest")


class TableBlock(Generic[V]):
    __slots__ = ("bytes", "entries", "era", "fence", "keys", "keys_era", "newest")

    def __init__(
        self, keys: list[bytes], entries: list[V], era: int, newest: int, fence: int, bytes_: int
    ) -> None:
        self.keys = keys  # ascending, never empty in a table
        self.entries = entries  # one for each key
        self.era = era  # of the table when this copy was made: an older one belongs to a frozen view, too
        self.keys_era = era  # the same of its keys
        self.newest = newest  # revision among the entries
        self.fence = fence  # the highest among them
        self.bytes = bytes_  # of keys and entries


class FrozenTable(Generic[V]):
    """What can be read; as it was at `freeze`."""

    def __init__(self, blocks: list[TableBlock[V]], lasts: list[bytes], count: int, bytes_total: int) -> None:
        self._blocks = blocks
        self._lasts = lasts  # the last keys of all blocks but the last
        self._count = count
        self.bytes_total = bytes_total  # of keys and entries

    def __len__(self) -> int:
        return self._count

    def get(self, key: bytes) -> V | None:
        if not self._blocks:
            return None
        block = self._blocks[bisect_left(self._lasts, key)]
        place = bisect_left(block.keys, key)
        return block.entries[place] if place < len(block.keys) and block.keys[place] == key else None

    def slices(self, first: bytes, end: bytes | None) -> Iterator[tuple[list[bytes], list[V]]]:
        """From `first` up to before `end`, without it to the last: a piece of each block, none of them empty.
        Nothing may be changed before the last piece was taken."""
        for block, start, stop in self._spans(first, end):
            yield block.keys[start:stop], block.entries[start:stop]

    def items(self, first: bytes, end: bytes | None) -> Iterator[tuple[bytes, V]]:
        for keys, entries in self.slices(first, end):
            yield from zip(keys, entries, strict=True)

    def blocks_as_they_go(self) -> Iterator[TableBlock[V]]:
        """In order, and each is let go of: so what the table has replaced meanwhile is freed block by
        block."""
        self._blocks.reverse()
        while self._blocks:
            yield self._blocks.pop()

    def count(self, first: bytes, end: bytes | None) -> int:
        return sum(stop - start for _block, start, stop in self._spans(first, end))

    def newest(self, first: bytes, end: bytes | None) -> int:
        """Revision; 0 if nothing is there."""
        if not self._blocks:
            return 0
        low = bisect_left(self._lasts, first)
        high = len(self._lasts) if end is None else bisect_left(self._lasts, end)
        newest = max(map(_newest_of, self._blocks[low + 1 : high]), default=0)
        for block in (self._blocks[number] for number in sorted({low, high})):
            keys = block.keys
            start = bisect_left(keys, first)
            stop = len(keys) if end is None else bisect_left(keys, end)
            if stop - start == len(keys):
                newest = max(newest, block.newest)
            elif start < stop:
                newest = max(newest, *[entry.modify for entry in block.entries[start:stop]])
        return newest

    def seek(self, key: bytes) -> bytes | None:
        """The first key that is not before this one."""
        if not self._blocks:
            return None
        number = bisect_left(self._lasts, key)
        block = self._blocks[number]
        place = bisect_left(block.keys, key)
        return block.keys[place] if place < len(block.keys) else None

    def folders(self, prefix: bytes, separator: bytes, after: bytes | None = None) -> Iterator[bytes]:
        """Keys below the prefix, each cut after the first separator behind it, each once: as many steps as
        there are results, however much lies below them. From the one on that follows on `after`."""
        end, key = end_of(prefix), prefix
        if after is not None:
            is_folder = after.find(separator, len(prefix)) >= 0
            following = end_of(after) if is_folder else after + b"\x00"
            if following is None:
                return
            key = following
        while (found := self.seek(key)) is not None and (end is None or found < end):
            cut = found.find(separator, len(prefix))
            if cut < 0:
                yield found
                key = found + b"\x00"
                continue
            folder = found[: cut + len(separator)]
            yield folder
            following = end_of(folder)
            if following is None:
                return
            key = following

    def _spans(self, first: bytes, end: bytes | None) -> Iterator[tuple[TableBlock[V], int, int]]:
        """Each block that has keys in the range, and which of its places."""
        for number in range(bisect_left(self._lasts, first), len(self._blocks)):
            block = self._blocks[number]
            keys = block.keys
            start = bisect_left(keys, first) if keys[0] < first else 0
            stop = len(keys) if end is None or keys[-1] < end else bisect_left(keys, end)
            if start < stop:
                yield block, start, stop
            if stop < len(keys):
                return


class KeyTable(FrozenTable[V]):
    def __init__(self) -> None:
        super().__init__([], [], 0, 0)
        self.blocks_made = 0  # new ones, and copies of those that a frozen view has, too
        self._era = 0

    def freeze(self) -> FrozenTable[V]:
        self._era += 1
        return FrozenTable(self._blocks[:], self._lasts[:], self._count, self.bytes_total)

    def put(self, key: bytes, entry: V) -> V | None:
        """What stood there before."""
        if not self._blocks:
            self._blocks.append(TableBlock([], [], self._era, 0, 0, 0))
        number = bisect_left(self._lasts, key)
        block = self._own(number)
        keys, revision, fence, bytes_ = block.keys, entry.modify, entry.fence, entry.bytes_total
        if revision > block.newest:
            block.newest = revision
        if fence > block.fence:
            block.fence = fence
        place = bisect_left(keys, key)
        if place < len(keys) and keys[place] == key:
            before, block.entries[place] = block.entries[place], entry
            self._grow(block, bytes_ - before.bytes_total)
            return before
        keys = self._own_keys(block)
        keys.insert(place, key)
        block.entries.insert(place, entry)
        self._grow(block, bytes_ + len(key))
        self._count += 1
        if len(keys) > BLOCK_KEYS_MAX:
            self._split(number)
        return None

    def remove(self, key: bytes) -> V | None:
        """What stood there."""
        if self.get(key) is None:
            return None
        number = bisect_left(self._lasts, key)
        block = self._own(number)
        place = bisect_left(block.keys, key)
        entry = block.entries.pop(place)
        del self._own_keys(block)[place]
        self._grow(block, -entry.bytes_total - len(key))
        self._count -= 1
        # Of a deleted tree all are as new, and so is the first that is left.
        if block.keys and entry.modify == block.newest != block.entries[0].modify:
            block.newest = max([each.modify for each in block.entries])
        if block.keys and entry.fence == block.fence != block.entries[0].fence:
            block.fence = max([each.fence for each in block.entries])
        if block.keys and number < len(self._lasts):
            self._lasts[number] = block.keys[-1]
        if len(block.keys) < BLOCK_KEYS_JOINED:
            self._join(number)
        return entry

    def cut(self, first: bytes, end: bytes | None) -> list[TableBlock[V]]:
        """Takes a range away; whole blocks of it are set aside without a look at their entries. They are
        handed over, so that whoever drops a million entries can do that in pieces."""
        if not self._blocks:
            return []
        low = bisect_left(self._lasts, first)
        high = len(self._lasts) if end is None else bisect_left(self._lasts, end)
        taken: list[TableBlock[V]] = []
        kept: list[TableBlock[V]] = []
        for number in sorted({low, high}):
            block = self._blocks[number]
            keys, entries = block.keys, block.entries
            start = bisect_left(keys, first)
            stop = len(keys) if end is None else bisect_left(keys, end)
            if start == 0 and stop == len(keys):
                taken.append(block)
            elif start < stop:
                taken.append(self._block(keys[start:stop], entries[start:stop]))
                kept.append(self._block(keys[:start] + keys[stop:], entries[:start] + entries[stop:]))
            else:
                kept.append(block)
            if number == low:
                taken += self._blocks[low + 1 : high]
        self._blocks[low : high + 1] = kept
        self._lasts[low : high + 1] = [block.keys[-1] for block in kept]
        del self._lasts[max(len(self._blocks) - 1, 0) :]
        self._count -= sum([len(block.keys) for block in taken])
        self.bytes_total -= sum([block.bytes for block in taken])
        return taken

    def load(self, keys: list[bytes], entries: list[V]) -> None:
        """The next piece of a table that is read back: its keys follow on all that are here."""
        if not keys:
            return
        self._count += len(keys)
        last = self._blocks[-1] if self._blocks else None
        if last is not None and len(last.keys) + len(keys) <= BLOCK_KEYS_MAX // 2:
            self.bytes_total -= last.bytes
            self._blocks[-1] = block = self._block(last.keys + keys, last.entries + entries)
        else:
            if last is not None:
                self._lasts.append(last.keys[-1])
            block = self._block(keys, entries)
            self._blocks.append(block)
        self.bytes_total += block.bytes

    # Inside.

    def _own(self, number: int) -> TableBlock[V]:
        """This block, as a copy of ours if a frozen view has it, too; but for its keys."""
        block = self._blocks[number]
        if block.era != self._era:
            keys_era = block.keys_era
            block = TableBlock(
                block.keys, block.entries[:], self._era, block.newest, block.fence, block.bytes
            )
            block.keys_era = keys_era
            self._blocks[number] = block
            self.blocks_made += 1
        return block

    def _own_keys(self, block: TableBlock[V]) -> list[bytes]:
        """Those of a block of ours, to be changed."""
        if block.keys_era != self._era:
            block.keys, block.keys_era = block.keys[:], self._era
        return block.keys

    def _grow(self, block: TableBlock[V], bytes_: int) -> None:
        block.bytes += bytes_
        self.bytes_total += bytes_

    def _split(self, number: int) -> None:
        block = self._blocks[number]
        middle = len(block.keys) // 2
        left = self._block(block.keys[:middle], block.entries[:middle])
        right = self._block(block.keys[middle:], block.entries[middle:])
        self._blocks[number : number + 1] = [left, right]
        self._lasts.insert(number, left.keys[-1])

    def _join(self, number: int) -> None:
        """With the next one, or the last with the one before it; an empty block goes."""
        blocks, lasts = self._blocks, self._lasts
        if not blocks[number].keys:
            del blocks[number]
            if lasts:
                del lasts[min(number, len(lasts) - 1)]
            return
        if len(blocks) == 1:
            return
        left = min(number, len(blocks) - 2)
        one, other = blocks[left], blocks[left + 1]
        if len(one.keys) + len(other.keys) > BLOCK_KEYS_MAX // 2:
            return
        blocks[left : left + 2] = [self._block(one.keys + other.keys, one.entries + other.entries)]
        del lasts[left]

    def _block(self, keys: list[bytes], entries: list[V]) -> TableBlock[V]:
        newest = max([entry.modify for entry in entries])
        fence = max([entry.fence for entry in entries])
        bytes_ = sum(map(len, keys)) + sum([entry.bytes_total for entry in entries])
        self.blocks_made += 1
        return TableBlock(keys, entries, self._era, newest, fence, bytes_)


def end_of(prefix: bytes) -> bytes | None:
    """The first key after all that begin with it; None if there is none."""
    prefix = prefix.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None
