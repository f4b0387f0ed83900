"""Prints outcomes so that a person sees at once which request differs, where, and what each side said."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from tests.conformance.expected import EXPECTED, Deviation
from tests.conformance.run import Found, Outcome, title

CUT = 150
GIVEN_SHOWN = 5


class Report:
    def __init__(self, *, ours: str, verbose: bool, show_answers: bool) -> None:
        self.ours = ours
        self.verbose = verbose
        self.show_answers = show_answers
        self.same = 0
        self.explained: Counter[str] = Counter()
        self.differing = 0
        self.unexplained = 0
        self.seen: set[Deviation] = set()

    def add(self, outcome: Outcome) -> None:
        unexplained = outcome.unexplained
        self.same += not outcome.found
        self.differing += bool(outcome.found)
        self.unexplained += bool(unexplained)
        self.seen |= {each.deviation for each in outcome.found if each.deviation}
        if outcome.found and not unexplained:
            self.explained.update({each.deviation.id for each in outcome.found if each.deviation})
        if self.verbose or unexplained:
            self.print_case(outcome)
        if self.show_answers:
            print_answers(outcome)

    def print_case(self, outcome: Outcome) -> None:
        verdict = "DIFFERS" if outcome.unexplained else "as said" if outcome.found else "ok"
        print(f"  {verdict:8} {outcome.case.name}")
        number = None
        for found in outcome.found if self.verbose else outcome.unexplained:
            if found.exchange != number:
                number = found.exchange
                print(f"           {exchange_title(outcome, number)}")
            self.print_difference(found)

    def print_difference(self, found: Found) -> None:
        difference = found.difference
        why = f"   {found.deviation.id}: {found.deviation.why}" if found.deviation else ""
        print(f"             {difference.where}{why}")
        print(f"               Consul {cut(difference.consul)}")
        print(f"               {self.ours:6} {cut(difference.ours)}")

    def ids(self) -> str:
        return ", ".join(f"{name} ×{count}" for name, count in sorted(self.explained.items()))

    def summary(self) -> str:
        explained = self.differing - self.unexplained
        return f"ok {self.same}, differ {self.differing} ({explained} explained by a D-id)"

    def unseen(self) -> list[Deviation]:
        """What the list of expected differences promises and the run did not show."""
        return [each for each in EXPECTED if each not in self.seen]


def exchange_title(outcome: Outcome, number: int) -> str:
    if number < 0:
        return "while preparing: " + "; ".join(title(each) for each in outcome.case.given)
    return title(outcome.case.ask[number]) if number < len(outcome.case.ask) else "the process"


def print_answers(outcome: Outcome) -> None:
    print(f"  {outcome.case.name}")
    for request in outcome.case.given[:GIVEN_SHOWN]:
        print(f"    given {title(request)}")
    if more := outcome.case.given[GIVEN_SHOWN:]:
        print(f"    given {len(more)} more")
    for number, answer in enumerate(outcome.consul):
        print(f"    {exchange_title(outcome, number)}")
        for line in indented(answer):
            print(f"      {line}")


def indented(answer: object) -> Iterable[str]:
    return json.dumps(answer, indent=2, ensure_ascii=False).splitlines()


def cut(text: str) -> str:
    return text if len(text) <= CUT else f"{text[:CUT]} … ({len(text)} characters)"
