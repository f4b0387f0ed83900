"""What is sent between two looks: some inputs for every door, in an order that a seed decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from tests.fuzz.exchanges import Exchanges
from tests.fuzz.files import Files
from tests.fuzz.gossip import Gossip
from tests.fuzz.questions import Questions
from tests.fuzz.requests import Requests
from tests.fuzz.trees import Input
from tests.fuzz.values import Values

# Some two seconds on one core, about as long for each door.
SHARES = {
    "datagram": 450,
    "claim": 150,
    "event": 40,
    "stream": 25,
    "calls": 40,
    "answer": 12,
    "http": 110,
    "filter": 10,
    "dns": 190,
    "costly": 10,
}
# So often each of a few of them is repeated, in every second slice: what costs little then counts.
FLOOD = {"datagram": 96, "calls": 3, "http": 6, "filter": 6, "dns": 96, "costly": 96}
FLOOD_INPUTS = 3
FLOOD_SHARE = 0.5


def mixed(seed: str, shares: Mapping[str, int] = SHARES) -> list[Input]:
    random = Random(seed)
    made = {kind: [make() for _ in range(shares[kind])] for kind, make in _makers(Values(random)).items()}
    inputs = [each for of_one_kind in made.values() for each in of_one_kind]
    random.shuffle(inputs)
    return [*inputs, *_flood(random, made)] if random.random() < FLOOD_SHARE else inputs


def _flood(random: Random, made: Mapping[str, list[Input]]) -> list[Input]:
    repeated: list[Input] = []
    for kind, times in FLOOD.items():
        for chosen in random.sample(made[kind], k=FLOOD_INPUTS):
            repeated += [chosen] * times
    return repeated


def claims_alone(seed: str, first: int, count: int) -> list[Input]:
    gossip = Gossip(Values(Random(seed)))
    return [gossip.newcomer(n) if n % 2 else gossip.claim_alone() for n in range(first, first + count)]


def folder(seed: str) -> list[Input]:
    return Files(Values(Random(seed))).folder()


def _makers(values: Values) -> dict[str, Callable[[], Input]]:
    gossip, exchanges = Gossip(values), Exchanges(values)
    requests, questions = Requests(values), Questions(values)
    return {
        "datagram": gossip.datagram,
        "claim": gossip.claim_alone,
        "event": gossip.event_alone,
        "stream": exchanges.stream,
        "calls": exchanges.calls,
        "answer": exchanges.answer,
        "http": requests.request,
        "filter": requests.filtered,
        "dns": questions.question,
        "costly": questions.costly,
    }
