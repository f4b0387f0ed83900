"""Regular expressions that take time in proportion to the text, whatever the pattern.

Consul's `matches` is RE2. Python's `re` tries alternatives one after the other: `(a+)+$`, or only
`a*a*a*a*b`, against one long check output would hold the event loop for minutes, and no rule on how a pattern
looks tells the dangerous ones from the others. A binding to RE2 would be one more compiled dependency for a
seldom used operator. So this is the old way: all alternatives at once (Thompson, 1968), with each set of
places that was reached remembered as a state: text of a kind seen before costs one look-up a character.

Limits: a pattern's program has at most INSTRUCTIONS_MAX steps, and over its life it may do WORK_MAX steps of
work that is not yet remembered (about 40 ms); past that it refuses, with a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from adsum.catalog.pattern_grammar import (
    WORD,
    Assertion,
    BadPattern,
    Characters,
    Choice,
    Node,
    Repeat,
    Sequence,
    parse_pattern,
)

INSTRUCTIONS_MAX = 500
EMITTED_MAX = 10 * INSTRUCTIONS_MAX
WORK_MAX = 100_000
STEP_WORK = 10  # what one step costs besides the instructions it looks at

TEXT_EDGE = ""  # stands for the character before the first and after the last


class Pattern:
    def __init__(self, text: str) -> None:
        self._text = text
        tree = parse_pattern(text)
        self._literal = _literal_of(tree)
        self._program = _Program(tree)
        self._work_left = WORK_MAX
        self._states: dict[tuple[tuple[int, ...], str], _State] = {}
        self._found = _State((), TEXT_EDGE)
        self._first = self._state((self._program.start,), TEXT_EDGE)

    def occurs_in(self, subject: str) -> bool:
        if self._literal is not None:
            return self._literal in subject
        state = self._first
        for character in chain(subject, (TEXT_EDGE,)):
            following = state.get(character)
            if following is None:
                following = self._step(state, character)
            if following is self._found:
                return True
            state = following
        return False

    def _step(self, state: _State, character: str) -> _State:
        reached, is_found = self._program.reach(state.waiting, state.before, character)
        self._work_left -= len(reached) + len(state.waiting) + STEP_WORK
        if self._work_left < 0:
            raise BadPattern(f"the regular expression {self._text} needs too much work; make it simpler")
        following = self._found if is_found else self._after(reached, character)
        state[character] = following
        return following

    def _after(self, reached: list[_Consume], character: str) -> _State:
        places = {self._program.start: None}  # a match may begin anywhere
        if character != TEXT_EDGE:
            places.update((each.after, None) for each in reached if each.characters.has(character))
        return self._state(tuple(sorted(places)), _kind(character))

    def _state(self, waiting: tuple[int, ...], before: str) -> _State:
        return self._states.setdefault((waiting, before), _State(waiting, before))


class _State(dict[str, "_State"]):
    """The places reached before looking at the next character, and where each character led so far."""

    __slots__ = ("before", "waiting")

    def __init__(self, waiting: tuple[int, ...], before: str) -> None:
        super().__init__()
        self.waiting = waiting
        self.before = before


@dataclass(frozen=True, slots=True)
class _Consume:
    characters: Characters
    after: int


@dataclass(frozen=True, slots=True)
class _Assert:
    assertion: Assertion
    after: int


@dataclass(slots=True)
class _Fork:
    ways: tuple[int, ...]


class _Accept:
    pass


class _Program:
    """The tree as instructions, built from the end: each is told where to go on."""

    def __init__(self, tree: Node) -> None:
        self._instructions: list[_Consume | _Assert | _Fork | _Accept] = []
        self._emitted = 0
        self.start = self._emit(tree, self._add(_Accept()))

    def reach(self, waiting: tuple[int, ...], before: str, following: str) -> tuple[list[_Consume], bool]:
        """Every instruction that could consume the following character, and whether the end was reached."""
        stack, seen = list(waiting), set(waiting)
        reached: list[_Consume] = []
        while stack:
            match self._instructions[stack.pop()]:
                case _Consume() as consume:
                    reached.append(consume)
                    continue
                case _Assert(assertion, after):
                    ways: tuple[int, ...] = (after,) if _holds(assertion, before, following) else ()
                case _Fork(ways):
                    pass
                case _Accept():
                    return reached, True
            for way in ways:
                if way not in seen:
                    seen.add(way)
                    stack.append(way)
        return reached, False

    def _add(self, instruction: _Consume | _Assert | _Fork | _Accept) -> int:
        if len(self._instructions) >= INSTRUCTIONS_MAX:
            raise BadPattern(f"the regular expression has more than {INSTRUCTIONS_MAX} steps")
        self._instructions.append(instruction)
        return len(self._instructions) - 1

    def _emit(self, node: Node, after: int) -> int:
        self._emitted += 1  # repeated repetition of nothing at all adds no instruction, but takes time
        if self._emitted > EMITTED_MAX:
            raise BadPattern(f"the regular expression has more than {INSTRUCTIONS_MAX} steps")
        match node:
            case Characters():
                return self._add(_Consume(node, after))
            case Assertion():
                return self._add(_Assert(node, after))
            case Sequence(parts):
                for part in reversed(parts):
                    after = self._emit(part, after)
                return after
            case Choice(parts):
                return self._add(_Fork(tuple(self._emit(part, after) for part in parts)))
            case Repeat():
                return self._emit_repeat(node, after)

    def _emit_repeat(self, node: Repeat, after: int) -> int:
        if node.most is None:
            loop = _Fork(())
            place = self._add(loop)
            loop.ways = (self._emit(node.part, place), after)
            after = place
        else:
            for _ in range(node.most - node.least):
                after = self._add(_Fork((self._emit(node.part, after), after)))
        for _ in range(node.least):
            after = self._emit(node.part, after)
        return after


WORD_CHARACTERS = Characters(WORD)


def _is_word(character: str) -> bool:
    return WORD_CHARACTERS.has(character)


def _kind(character: str) -> str:
    """All that an assertion wants to know of the character before."""
    if character == "\n":
        return "\n"
    return "w" if _is_word(character) else " "


def _holds(assertion: Assertion, before: str, following: str) -> bool:
    match assertion:
        case Assertion.TEXT_START:
            return before == TEXT_EDGE
        case Assertion.TEXT_END:
            return following == TEXT_EDGE
        case Assertion.LINE_START:
            return before in (TEXT_EDGE, "\n")
        case Assertion.LINE_END:
            return following in (TEXT_EDGE, "\n")
        case Assertion.WORD_EDGE:
            return _is_word(before) != _is_word(following)
        case Assertion.NO_WORD_EDGE:
            return _is_word(before) == _is_word(following)


def _literal_of(tree: Node) -> str | None:
    """The text itself, for a pattern without anything special in it."""
    if not isinstance(tree, Sequence):
        return None
    characters = []
    for part in tree.parts:
        if (
            not (isinstance(part, Characters) and len(part.ranges) == 1)
            or part.is_negated
            or part.ignores_case
        ):
            return None
        low, high = part.ranges[0]
        if low != high:
            return None
        characters.append(chr(low))
    return "".join(characters)
