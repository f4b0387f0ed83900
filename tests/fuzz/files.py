"""Saved files: each of those in a data folder, whole by its checksum, with contents no agent would write."""

from __future__ import annotations

import base64
import json
from dataclasses import fields

from adsum.agent.saved_files import COPY, GENERATION, PEERS
from adsum.catalog.definitions import CheckDefinition, ServiceDefinition
from adsum.catalog.saved import TTL_STATES, check_path, service_path
from adsum.journal.journal import FILE_NAME as JOURNAL
from adsum.net import keyring
from adsum.process.identity import NODE_ID_PATH
from tests.fuzz.catalog import SERVICES, Catalog
from tests.fuzz.participants import AGENTS_ATTACKED, STRANGERS_MADE_UP, Participant
from tests.fuzz.trees import Cbor, Input, Known, Saved
from tests.fuzz.values import Values

REGISTRATIONS_MAX = 4
HOUR_MS = 3_600_000
SELDOM_SHARE = 0.15
WALL_MS = (Known("now", -1_000), Known("now", -1_000), Known("now", HOUR_MS), 0, 1 << 60)
GENERATIONS = (
    *("", "0", "9007199254740990", "9007199254740991", "9" * 16, "9" * 17, "-1", "1\n", "١", "1e9"),
    "\0",
)
NODE_IDS = (
    *(AGENTS_ATTACKED[0].uuid_text, STRANGERS_MADE_UP[0].uuid_text),
    *("", "x" * 36, "0" * 36, "\0" * 36, "{}", "é" * 18),
)


class Files:
    """One call makes what is written into one data folder before one start."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.random = values.random
        self._catalog = Catalog(values)

    def folder(self) -> list[Input]:
        """What may end a start by rights, the keyring, is seldom among it: it would hide all the rest."""
        made = [self._peers(), self._copy(), self._ttl_states()]
        made += [self._registration() for _ in range(self.random.randint(1, 2 * REGISTRATIONS_MAX))]
        seldom = (self._generation, self._node_id, self._keyring, self._journal)
        made += [make() for make in seldom if self.values.chance(SELDOM_SHARE)]
        return made

    def _file(self, path: str, content: object) -> Input:
        return Input("file", 0, {"path": path, "content": self.values.seldom_damaged(content)})

    def _peers(self) -> Input:
        count = self.random.choice((0, 1, 20, 20, 1_100))
        rows: list[object] = []
        for _ in range(count):
            is_port = self.values.chance(0.8)
            port: object = Known(f"port{self.random.randrange(3)}") if is_port else self.values.port()
            rows.append(["127.0.0.1" if self.values.chance(0.3) else self.values.host(), port])
        return self._file(PEERS, Cbor(self.values.mutated(rows)))

    def _copy(self) -> Input:
        chosen = self.random.sample(STRANGERS_MADE_UP, k=self.random.choice((0, 1, 12)))
        owners = [self._owner(each) for each in chosen]
        form = self.random.choice((3, 3, 3, 2, 4))
        return self._file(COPY, Saved(self.values.mutated([form, self.random.choice(WALL_MS), owners])))

    def _owner(self, who: Participant) -> object:
        host = "127.0.0.1" if self.values.chance(0.3) else self.values.host()
        spans = [Cbor(self._span_of(who)) for _ in range(self.random.randint(0, 3))]
        version = ["0.1.0"] if self.values.chance(0.5) else []
        row = [who.node_id, who.name, host, Known(who.port), b"", spans, self.values.chance(0.7), *version]
        return self.values.mutated(row, times_max=1)

    def _span_of(self, who: Participant) -> object:
        rows = [[number, 0, Cbor(self._catalog.record())] for number in range(self.random.randint(1, 8))]
        return self.values.mutated([1, who.short, 1, 1, bytes(8), rows, 0, 1, 0], times_max=1)

    def _registration(self) -> Input:
        service = self.random.choice(SERVICES)
        if self.values.chance(0.5):
            saved = {"service_id": service, "name": service, **self._some(ServiceDefinition)}
            return self._file(service_path(service), Saved(self.values.mutated(saved, times_max=2)))
        check = {"check_id": f"c-{service}", "name": "c", "ttl_ns": 10**10, **self._some(CheckDefinition)}
        return self._file(check_path(f"c-{service}"), Saved(self.values.mutated(check, times_max=2)))

    def _some(self, kind: type[ServiceDefinition] | type[CheckDefinition]) -> dict[str, object]:
        """A few of its fields, most with a value of their type."""
        chosen = self.random.sample(fields(kind), k=3)
        return {field.name: self._of_type(str(field.type)) for field in chosen if field.name not in ("args",)}

    def _of_type(self, kind: str) -> object:
        match kind:
            case "str":
                return self.values.text()
            case "int":
                return self.values.integer()
            case "bool":
                return True
            case _ if kind.startswith("tuple"):
                return [self.values.text()]
        return self.values.anything()

    def _ttl_states(self) -> Input:
        rows = [[f"c-{each}", "warning", "late", Known("now", HOUR_MS)] for each in SERVICES[:3]]
        return self._file(TTL_STATES, Saved(self.values.mutated(rows)))

    # Plain files.

    def _generation(self) -> Input:
        return self._file(GENERATION, self.random.choice(GENERATIONS).encode())

    def _node_id(self) -> Input:
        return self._file(NODE_ID_PATH, self.random.choice(NODE_IDS).encode())

    def _keyring(self) -> Input:
        keys: list[object] = [base64.b64encode(self.random.randbytes(length)).decode() for length in (16, 32)]
        content = self.values.mutated({"generation": 1, "keys": keys}, times_max=2)
        return self._file(keyring.PATH, json.dumps(content, default=repr).encode())

    def _journal(self) -> Input:
        head = b"SQLite format 3\0" if self.values.chance(0.5) else b""
        return self._file(JOURNAL, head + self.values.octets())
