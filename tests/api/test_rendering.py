"""What is kept, for how long, and what goes when room is needed."""

from __future__ import annotations

import weakref

import trio

from adsum.api.freshness import Freshness
from adsum.api.rendering import OVERHEAD_BYTES, ApiCounters, Rendering, Renderings, WaitableRead
from adsum.catalog.indexes import Family, Indexes
from adsum.http.response import HeaderList
from adsum.topics import Topic

WEB = Topic(Family.HEALTH, "web")
DB = Topic(Family.HEALTH, "db")


class Stamped(Freshness):
    """Headers that a test changes."""

    def __init__(self) -> None:
        self.version = 1
        self.headers: HeaderList = (("X-Meta", "1"),)

    def look(self) -> int:
        return self.version

    def change(self, value: str) -> None:
        self.headers = (("X-Meta", value),)
        self.version += 1


class Source:
    """What a query shows, and how often it was asked to be made."""

    def __init__(self, shown: bytes = b"[]") -> None:
        self.shown = shown
        self.made = 0

    def render(self) -> bytes:
        self.made += 1
        return self.shown


def rendering(
    source: Source, indexes: Indexes, counters: ApiCounters | None = None, *topics: Topic
) -> Rendering:
    read = WaitableRead(indexes, topics or (WEB,), source.render)
    return Rendering(read, counters or ApiCounters(), Stamped(), is_pretty=False)


async def test_answer_stands_until_its_topic_moves() -> None:
    indexes, source = Indexes(1000, tag=7), Source()
    kept = rendering(source, indexes)
    first = kept.current()
    indexes.advance(2000)
    indexes.touch(DB)
    assert kept.current() is first
    indexes.touch(WEB)
    source.shown = b"[1]"
    assert kept.current() is not first
    assert source.made == 2
    assert dict(kept.current().headers) == {"X-Consul-Index": str(2000 << 8 | 7), "X-Meta": "1"}


async def test_same_bytes_keep_their_index() -> None:
    indexes, source = Indexes(1000, tag=7), Source()
    kept = rendering(source, indexes)
    first, index = kept.current(), kept.index
    indexes.advance(2000)
    indexes.touch(WEB)
    assert kept.current() is first
    assert kept.index == index
    assert source.made == 2
    assert kept.current() is first
    assert source.made == 2


async def test_other_headers_take_a_new_head_and_the_body_as_it_is() -> None:
    indexes, source, stamped = Indexes(1000, tag=7), Source(), Stamped()
    kept = Rendering(WaitableRead(indexes, (WEB,), source.render), ApiCounters(), stamped, is_pretty=False)
    before, index = kept.current(), kept.index
    stamped.change("2")
    after = kept.current()
    assert dict(after.headers)["X-Meta"] == "2"
    assert (after.body, kept.index, source.made) == (before.body, index, 1)
    assert kept.current() is after


async def test_any_of_several_topics_moves_it() -> None:
    indexes, source = Indexes(1000, tag=7), Source()
    kept = rendering(source, indexes, None, WEB, DB)
    kept.current()
    for n, topic in enumerate((WEB, DB), start=2):
        indexes.advance(n * 1000)
        indexes.touch(topic)
        source.shown = str(n).encode()
        assert kept.current().body.plain == source.shown
        assert kept.index == n * 1000 << 8 | 7


def kept_in(renderings: Renderings, counters: ApiCounters, name: str, size: int = 2) -> Rendering:
    made = rendering(Source(b"x" * size), Indexes(1000, tag=7), counters)
    made.current()
    renderings.keep(name, made)
    renderings.keep_target(name.encode(), made)
    return made


async def test_query_that_was_not_used_goes_first() -> None:
    counters = ApiCounters()
    renderings = Renderings(counters, queries_max=3)
    for name in ("a", "b", "c"):
        kept_in(renderings, counters, name)
    kept_in(renderings, counters, "d")  # all were used: each gets another round, then the oldest goes
    assert renderings.get("a") is None
    b = renderings.get("b")
    assert b is not None
    b.is_used = True
    kept_in(renderings, counters, "e")
    assert renderings.get("b") is not None
    assert renderings.get("c") is None
    assert set(renderings.by_target) == {b"b", b"d", b"e"}
    assert counters.renderings_dropped == 2


async def test_bytes_are_bounded_too_and_the_last_one_stays() -> None:
    counters = ApiCounters()
    renderings = Renderings(counters, bytes_max=25_000)
    for n in range(50):
        kept_in(renderings, counters, f"small{n}", 0)
    assert len(renderings) == 10  # 2,048 each, and 256 and its text for the spelling
    kept_in(renderings, counters, "huge", 200_000)
    assert len(renderings) == 1
    assert renderings.get("huge") is not None
    assert counters.rendering_bytes == 200_000 + 2_048 + 256 + 4


async def test_what_was_asked_is_kept_too_and_counted() -> None:
    counters = ApiCounters()
    renderings = Renderings(counters)
    asked = b"/v1/catalog/nodes?filter=" + b"x" * 7_975
    read = WaitableRead(Indexes(1000, tag=7), (WEB,), Source().render)
    made = Rendering(read, counters, Stamped(), is_pretty=False, asked=asked)
    made.current()
    renderings.keep("a", made)
    assert counters.rendering_bytes == 2 + 2_048 + 4 * 8_000
    for target in (b"/one", b"/another"):
        renderings.keep_target(target, made)
    assert counters.rendering_bytes == 2 + 2_048 + 4 * 8_000 + 2 * 256 + 12


async def test_answer_that_grows_makes_others_go() -> None:
    counters = ApiCounters()
    renderings = Renderings(counters, bytes_max=10 * OVERHEAD_BYTES)
    indexes, source = Indexes(1000, tag=7), Source()
    growing = rendering(source, indexes, counters)
    growing.current()
    renderings.keep("growing", growing)
    for n in range(5):
        kept_in(renderings, counters, f"small{n}").is_used = False
    indexes.advance(2000)
    indexes.touch(WEB)
    source.shown = b"x" * 8 * OVERHEAD_BYTES
    growing.current()
    assert counters.rendering_bytes <= 10 * OVERHEAD_BYTES
    assert renderings.get("growing") is growing


async def test_spellings_of_one_query_are_bounded() -> None:
    counters = ApiCounters()
    renderings = Renderings(counters)
    kept = kept_in(renderings, counters, "a")
    for n in range(100):
        renderings.keep_target(b"/v1/catalog/nodes?_=%d" % n, kept)
    renderings.keep_target(b"/v1/catalog/nodes?_=" + b"x" * 1000, kept)
    assert len(renderings.by_target) == len(kept.targets) == 8


async def test_renderings_pause_in_proportion_to_their_cost() -> None:
    kept = rendering(Source(), Indexes(1000, tag=7))
    kept.current()
    assert kept.next_at >= trio.current_time() + 0.015


async def test_what_was_dropped_is_asked_for_in_full() -> None:
    counters = ApiCounters()
    renderings = Renderings(counters, queries_max=1)
    first = kept_in(renderings, counters, "a")
    assert first.again() is first.current()
    assert counters.rendering_hits == 1
    kept_in(renderings, counters, "b")
    kept_in(renderings, counters, "c")
    assert first.again() is None
    recall, gone = first.recall, weakref.ref(first)
    del first
    assert gone() is None
    assert recall() is None
