"""Workload: transactions that lock one key, set another, check the index of one, read and delete keys and
what is below a prefix, in any order; of those that know an old index, or read what is not there, none may
leave anything behind. In between locks are given back, also in transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from adsum.kv import StoreOutcome
from adsum.now import SECOND
from adsum.session import Session, SessionDestroy
from adsum.testing.key_agents import KeyAgent
from adsum.testing.lock_clients import LockClient
from adsum.testing.lock_requests import LockRequest
from adsum.testing.lock_world import LockWorld
from adsum.transactions import KeyOperation, KeyOperationVerb, KeyResult, Transaction, decode_answer

FIRST_NUMBER = 700
KEYS = (b"both/x", b"both/y")
TREES = (b"both/", b"both/x", b"both/z")
DESTROYS_SHARE = 0.1
UNLOCKS_SHARE = 0.35
CHECKS_SHARE = 0.7
READS_SHARE = DELETES_SHARE = 0.25
TREES_SHARE = 0.4  # of those
GIVES_UP_AFTER = 12  # conflicts: then it begins with another session


def transactions(world: LockWorld, random: Random) -> Sequence[TransactionClient]:
    return [
        TransactionClient(world, agent, FIRST_NUMBER + place, Random(random.getrandbits(64)))
        for place, agent in enumerate(world.agents)
    ]


class TransactionClient(LockClient):
    def __init__(self, world: LockWorld, agent: KeyAgent, number: int, random: Random) -> None:
        super().__init__(world, agent, number, random)
        self._known: dict[bytes, int] = {}  # indexes, as it was told last
        self._held: dict[bytes, None] = {}
        self._conflicts = 0
        self.soon(self._begin, ns_max=2 * SECOND)

    def _begin(self) -> None:
        self._held, self._conflicts = {}, 0
        self.begin_session(self._go_on)

    def _go_on(self, session: Session) -> None:
        if self.session is not session or self._conflicts > GIVES_UP_AFTER:
            self.session = None
            self.soon(self._begin)
            return
        if self.has_stopped or self.random.random() < DESTROYS_SHARE:
            self._destroy(session)
            return

        def answered(request: LockRequest) -> None:
            self._learn(request)
            self.soon(lambda: self._go_on(session))

        self.ask(Transaction(self._chosen(session)), answered)

    def _destroy(self, session: Session) -> None:
        def answered(request: LockRequest) -> None:
            if self.has_stopped and request.answer is not None:
                self.is_settled = True
            elif self.has_stopped:
                self.soon(lambda: self._destroy(session))
            else:
                self.soon(self._begin)

        self.session = None
        self.ask(SessionDestroy(session.id), answered)

    def _chosen(self, session: Session) -> tuple[KeyOperation, ...]:
        random = self.random
        first, second = random.sample(KEYS, 2)
        is_giving_back = first in self._held and random.random() < UNLOCKS_SHARE
        verb = KeyOperationVerb.UNLOCK if is_giving_back else KeyOperationVerb.LOCK
        operations = [
            KeyOperation(verb, first, self.value(), session=session.id),
            KeyOperation(KeyOperationVerb.SET, second, self.value()),
        ]
        if random.random() < READS_SHARE:
            operations.append(self._on_tree(KeyOperationVerb.GET, KeyOperationVerb.GET_TREE))
        if random.random() < DELETES_SHARE:
            operations.append(self._on_tree(KeyOperationVerb.DELETE, KeyOperationVerb.DELETE_TREE))
        random.shuffle(operations)
        checked = random.choice(KEYS)
        if random.random() < CHECKS_SHARE and checked in self._known:
            check = KeyOperation(KeyOperationVerb.CHECK_INDEX, checked, index=self._known[checked])
            operations.insert(random.choice((0, 0, 0, 2)), check)
        return tuple(operations)

    def _on_tree(self, of_key: KeyOperationVerb, of_tree: KeyOperationVerb) -> KeyOperation:
        if self.random.random() < TREES_SHARE:
            return KeyOperation(of_tree, self.random.choice(TREES))
        return KeyOperation(of_key, self.random.choice(KEYS))

    def _learn(self, request: LockRequest) -> None:
        answer = request.answer
        if answer is None or answer.extras is None:
            return
        content = decode_answer(answer.extras.transaction)
        if answer.outcome is StoreOutcome.CONFLICT:
            self._conflicts += 1
            self._known, self._held = {}, {}
            return
        for result in content.results:
            if isinstance(result, KeyResult) and result.record is not None:
                self._known[result.key] = result.record.modify
                self._held.pop(result.key, None)
                if self.session is not None and result.record.lease == self.session.id:
                    self._held[result.key] = None
