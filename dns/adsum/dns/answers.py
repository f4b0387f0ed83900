"""An abstract answer becomes bytes: cut to the asker's room, in turning order, kept while the catalog stands.

A `DnsRendering` holds what follows the question in as many orders as it needs, each written when it is first
due and then served in turn: with thirty-two instances or fewer everyone comes first exactly as often as
everyone else. Larger sets keep thirty-two orders and replace one each round, so that nobody is forgotten.

Room is given up in this order: texts beside the answer, then answers with their addresses, then the
remaining addresses. Whoever loses an answer over UDP is told so (TC) and may ask again over TCP.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from random import Random

from adsum.catalog.view import View
from adsum.dns import wire
from adsum.dns.generations import Generations
from adsum.dns.settings import DnsSettings
from adsum.dns.wire import AA, CD, CNAME, QR, RA, RCODE_MASK, RD, SRV, TC, Question, Record, RecordWriter
from adsum.dns.zone import Answer, Offer, Zone
from adsum.frozen import dataclass

PLAIN_UDP_BYTES_MAX = 512
UDP_BYTES_MAX = 65_467  # 65,535 less the longest IP and UDP headers and some change, as newer Consul has it
TCP_BYTES_MAX = 65_523
UDP_OFFERS_MAX = 8  # above this `udp_answer_limit` is ignored
TCP_OFFERS_MAX = 4096
TCP_SRV_OFFERS_MAX = 1024
CHAIN_RECORDS_MAX = 5  # after an alias, for askers without EDNS

GROWTH_STEPS_MAX = 8  # beyond a guess by proportion, when looking for the most that fits
ORDERS_MAX = 32
ORDERS_BYTES_MAX = 65_536  # of one rendering; at least two orders are kept
RENDERINGS_MAX = 4096
RENDERINGS_BYTES_MAX = 8 * 1024 * 1024

Rendered = tuple[bytes, bytes]  # the header from its flags on; all that follows the question


class Transport(enum.Enum):
    UDP_HERE = enum.auto()  # the asker is on this host
    UDP = enum.auto()
    TCP = enum.auto()


@dataclass(frozen=True, slots=True)
class Room:
    bytes_max: int
    offers_max: int
    is_counted_uncompressed: bool = False  # so that an old resolver on the way may unpack the names
    is_last_resort: bool = False  # TCP: there is nothing to send the asker on to


def room_for(question: Question, transport: Transport, settings: DnsSettings) -> Room:
    if transport is Transport.TCP:
        offers_max = TCP_SRV_OFFERS_MAX if question.qtype == SRV else TCP_OFFERS_MAX
        return Room(TCP_BYTES_MAX, offers_max, is_last_resort=True)
    bytes_max = min(max(PLAIN_UDP_BYTES_MAX, question.edns_bytes or 0), UDP_BYTES_MAX)
    if transport is Transport.UDP:
        bytes_max = min(bytes_max, max(PLAIN_UDP_BYTES_MAX, settings.udp_bytes_max_other_hosts))
    if bytes_max > PLAIN_UDP_BYTES_MAX:
        return Room(bytes_max, TCP_OFFERS_MAX)
    limit = max(1, min(UDP_OFFERS_MAX, settings.udp_answer_limit))
    return Room(bytes_max, limit, is_counted_uncompressed=True)


class DnsRendering:
    """One answer to one question, ready to send in the orders it needs."""

    def __init__(
        self, question: Question, answer: Answer, room: Room, settings: DnsSettings, random: Random
    ) -> None:
        self.answer = answer
        self._question = question
        self._room = room
        self._settings = settings
        self._offers = list(answer.offers)
        self._is_turning = answer.is_rotated and len(self._offers) > 1
        if self._is_turning:
            random.shuffle(self._offers)
        self._kept: list[Rendered] = [self._render(0)]
        self._turn = 0
        self._round = 0

    @property
    def size_bytes(self) -> int:
        """What it holds once every order has been written."""
        return self._orders_wanted * len(self._kept[0][1])

    def take(self) -> Rendered:
        turn = self._turn
        if turn < len(self._kept):
            self._turn = turn + 1
            return self._kept[turn]
        return self._next_order() if self._is_turning else self._kept[0]

    def _next_order(self) -> Rendered:
        kept = self._kept
        if len(kept) < self._orders_wanted:
            kept.append(self._render(len(kept)))
            self._turn = len(kept)
            return kept[-1]
        if len(kept) < len(self._offers):  # more orders than we keep: one old one makes room each round
            kept[self._round % len(kept)] = self._render(len(kept) + self._round)
            self._round += 1
        self._turn = 1
        return kept[0]

    @property
    def _orders_wanted(self) -> int:
        if not self._is_turning:
            return 1
        affordable = max(2, ORDERS_BYTES_MAX // (len(self._kept[0][1]) + 1))
        return min(len(self._offers), ORDERS_MAX, affordable)

    def _render(self, first: int) -> Rendered:
        """The answer in the order that begins there, as much of it as there is room for."""
        question, answer, room, settings = self._question, self.answer, self._room, self._settings
        start = first % len(self._offers) if self._is_turning else 0
        offers = self._offers[start:] + self._offers[:start]
        if answer.offers_max:
            offers = offers[: answer.offers_max]
        if question.edns_bytes is None and offers and offers[0].record.rtype == CNAME:
            offers = offers[: 1 + CHAIN_RECORDS_MAX]
        draft = _Fitting(question, answer, room, settings).fit(offers)
        is_told = len(draft.offers) < len(offers) and settings.enable_truncate and not room.is_last_resort
        flags = QR | question.flags & (RD | CD) | answer.rcode & RCODE_MASK
        flags |= AA if answer.is_authoritative else 0
        flags |= TC if is_told or draft.is_bare else 0
        flags |= RA if settings.recursors else 0
        edns_bytes, options = question.edns_bytes, question.edns_options
        opt = b"" if edns_bytes is None else wire.opt_record(edns_bytes, options)
        additionals = len(draft.additional) + bool(opt)
        head = wire.head(flags, len(draft.offers), len(draft.authority), additionals)
        return head, draft.body + opt


@dataclass(frozen=True, slots=True)
class Draft:
    offers: Sequence[Offer]
    authority: Sequence[Record]
    additional: Sequence[Record]
    body: bytes
    size_bytes: int
    is_bare: bool = False  # nothing fitted at all


class _Fitting:
    """The search for the most that fits one asker's room."""

    def __init__(self, question: Question, answer: Answer, room: Room, settings: DnsSettings) -> None:
        self._name = question.name
        self._answer = answer
        self._room = room
        self._is_compressing = not settings.disable_compression
        self._is_counted_uncompressed = False
        opt_bytes = 0 if question.edns_bytes is None else wire.OPT_BYTES + len(question.edns_options)
        self._fixed_bytes = wire.HEADER_BYTES + len(question.echo) + opt_bytes

    def fit(self, offers: Sequence[Offer]) -> Draft:
        room = self._room
        if self._answer.is_rotated:  # the limit is on equals; a chain or a node's facts belong together
            self._is_counted_uncompressed = room.is_counted_uncompressed and len(offers) > room.offers_max
            offers = offers[: room.offers_max]
        hopeful = offers[: self._hope(offers)]
        texts_bytes = sum(text.bytes_least for offer in offers for text in offer.texts)
        if len(hopeful) == len(offers) and self._fixed_bytes + texts_bytes <= room.bytes_max:
            draft = self._draft(offers, with_addresses=True, with_texts=True)
            if self._fits(draft):
                return draft
        draft = self._most(hopeful, with_addresses=True)
        if not draft.offers and offers:
            draft = self._most(offers[:1], with_addresses=False)
        if self._fits(draft) and (draft.offers or not offers):
            return draft
        return Draft((), (), (), b"", self._fixed_bytes, is_bare=True)

    def _hope(self, offers: Sequence[Offer]) -> int:
        """No more than this many can fit, however well they compress: writing thousands to see takes long."""
        left_bytes = self._room.bytes_max - self._fixed_bytes
        for count, offer in enumerate(offers):
            left_bytes -= offer.record.bytes_least + sum(each.bytes_least for each in offer.addresses)
            if left_bytes < 0:
                return count
        return len(offers)

    def _most(self, offers: Sequence[Offer], *, with_addresses: bool) -> Draft:
        """The longest beginning that fits: a guess by proportion, then steps of one."""
        draft = self._draft(offers, with_addresses=with_addresses, with_texts=False)
        while not self._fits(draft) and draft.offers:
            guess = len(draft.offers) * self._room.bytes_max // draft.size_bytes
            fewer = offers[: min(guess, len(draft.offers) - 1)]
            draft = self._draft(fewer, with_addresses=with_addresses, with_texts=False)
        for _ in range(min(GROWTH_STEPS_MAX, len(offers) - len(draft.offers))):
            more = offers[: len(draft.offers) + 1]
            larger = self._draft(more, with_addresses=with_addresses, with_texts=False)
            if not self._fits(larger):
                return draft
            draft = larger
        return draft

    def _fits(self, draft: Draft) -> bool:
        return draft.size_bytes <= self._room.bytes_max

    def _draft(self, offers: Sequence[Offer], *, with_addresses: bool, with_texts: bool) -> Draft:
        authority = self._answer.authority
        additional: list[Record] = []
        for offer in offers:
            additional += offer.addresses if with_addresses else ()
            additional += offer.texts if with_texts else ()
        additional += self._answer.additional if with_texts else ()
        records = [*(offer.record for offer in offers), *authority, *additional]
        writer = RecordWriter(self._name, is_compressing=self._is_compressing)
        for record in records:
            writer.record(record)
        body = bytes(writer.body)
        size_bytes = len(body)
        if self._is_counted_uncompressed:
            size_bytes = max(size_bytes, sum(record.bytes_uncompressed for record in records))
        return Draft(offers, authority, additional, body, self._fixed_bytes + size_bytes)


class Answers:
    """The zone's answers as bytes, each rendered once per change of the catalog."""

    def __init__(self, view: View, settings: DnsSettings, random: Random) -> None:
        self._view = view
        self._random = random
        self.settings = settings
        self._zone = Zone(view, settings)
        self._kept: Generations[tuple[object, ...], DnsRendering] = Generations(
            values_max=RENDERINGS_MAX, bytes_max=RENDERINGS_BYTES_MAX
        )
        self._index = view.index
        self._outdated = 0
        self.rendered = 0

    @property
    def epoch(self) -> int:
        """Moves when earlier renderings must be asked for anew: they are untrue, or may be forgotten."""
        return self._outdated + self._kept.turns

    @property
    def overflows(self) -> int:
        """How often renderings had to make room."""
        return self._kept.turns

    def reconfigure(self, settings: DnsSettings) -> None:
        self.settings = settings
        self._zone = Zone(self._view, settings)
        self._outdate()

    def refresh(self) -> int:
        """The epoch as of now: renderings may be used for as long as it stands."""
        if self._index != self._view.index:
            self._index = self._view.index
            self._outdate()
        return self.epoch

    def to(self, question: Question, transport: Transport) -> DnsRendering:
        self.refresh()
        # Without compression the owner's spelling is written out, and is then part of what is kept.
        name = question.name if self.settings.disable_compression else question.name.lower()
        flags = question.flags & (RD | CD)
        key = (name, question.qtype, flags, question.edns_bytes, question.edns_options, transport)
        rendering = self._kept.get(key)
        if rendering is None:
            answer = self._zone.answer(question.name, question.qtype)
            rendering = self.rendering(question, transport, answer)
            self._kept.put(key, rendering, rendering.size_bytes)
        return rendering

    def rendering(self, question: Question, transport: Transport, answer: Answer) -> DnsRendering:
        self.rendered += 1
        room = room_for(question, transport, self.settings)
        return DnsRendering(question, answer, room, self.settings, self._random)

    def _outdate(self) -> None:
        self._outdated += 1
        self._kept.forget()
