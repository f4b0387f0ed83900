"""/v1/txn: up to 128 operations, all done or none.

What changes nothing is not in the log, and honours the modes of consistency. All operations that fail are
told with their places. Nodes, services and checks are those without an agent: what belongs to an agent is
its own to change, and is an error of that operation before anything is proposed.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from adsum.api import parameters, shapes
from adsum.api.answers import encoded_answer
from adsum.api.api_types import ApiParts, EndpointFamily
from adsum.api.blocking import check_consistency, parse_asked
from adsum.api.bodies import decode_json
from adsum.api.external_items import UnfitItem, check_item, node_item, service_item
from adsum.api.external_items import shown as shown_item
from adsum.api.kv import KvEntry, shown, shown_key
from adsum.api.plain_transaction import KEY_VERBS, UINT64_MAX, plain_operations
from adsum.api.store_access import StoreAccess, mode_of
from adsum.catalog.decode import Fields, WrongType
from adsum.catalog.definitions import BadDefinition
from adsum.external import ExternalItem, ExternalKind
from adsum.http.request import Request
from adsum.http.response import HeaderList, Response, too_large_sentence
from adsum.http.router import HttpRefusal, Route
from adsum.kv import StoreAnswer, StoreOutcome
from adsum.store_requests import TransactionRead
from adsum.transactions import (
    KEY_READS,
    EntryOperation,
    EntryVerb,
    KeyOperation,
    KeyOperationVerb,
    KeyResult,
    Operation,
    OperationError,
    Result,
    Transaction,
    TransactionAnswer,
    decode_answer,
    is_read,
)

OPERATIONS_MAX = 128
BODY_BYTES_MAX = 512 * 1024
ENTRY_VERBS = {verb.name.lower().replace("_", "-"): verb for verb in EntryVerb}
OWNED = 'the node "{0}" belongs to its agent: change what is on it there, at /v1/agent/service/register'
PREFIX = "Request decode failed: "


class ShownKey(msgspec.Struct, frozen=True, gc=False):
    KV: KvEntry


class UnfitOperation(Exception):
    """Told with the place of the operation."""

    def __init__(self, sentence: str, *, is_write: bool = True) -> None:
        super().__init__(sentence)
        self.is_write = is_write


class TransactionEndpoint(EndpointFamily):
    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._access = StoreAccess(parts.agent, parts.random)
        self._value_bytes_max = parts.agent.config.limits.kv_value_bytes_max

    def routes(self) -> list[Route]:
        return [Route(("PUT",), "/v1/txn", self.run)]

    async def run(self, request: Request, _rest: str) -> Response:
        query = request.query
        parse_asked(query, self._agent)
        check_consistency(query)
        parameters.check_datacenter(query, self._agent.config.datacenter)
        parameters.check_namespace(query)
        largest = max(BODY_BYTES_MAX, self._value_bytes_max)
        if len(request.body) > largest:
            raise HttpRefusal(413, too_large_sentence(len(request.body), largest))
        operations: tuple[Operation, ...]
        plain = plain_operations(request.body, most=OPERATIONS_MAX, value_bytes_max=self._value_bytes_max)
        if plain is not None:
            (operations, has_write), errors = plain, list[OperationError]()
        else:
            operations, errors, has_unfit_write = self._operations_in(request.body)
            has_write = has_unfit_write or not all(map(is_read, operations))
        if not has_write:
            return await self._read(request, operations, errors)
        if errors:
            return self._told(request, TransactionAnswer(errors=errors))
        answer = await self._access.write(request, Transaction(operations))
        return self._told(request, answer_in(answer))

    async def _read(
        self, request: Request, operations: tuple[Operation, ...], errors: list[OperationError]
    ) -> Response:
        found = await self._access.run_reads(request, TransactionRead(operations, mode_of(request.query)))
        meta: HeaderList = (
            ("X-Consul-Knownleader", "true" if found.has_leader else "false"),
            ("X-Consul-Lastcontact", str(found.behind_ms)),
        )
        about = {
            "Index": 0,  # as Consul says there
            "LastContact": found.behind_ms * 1_000_000,
            "KnownLeader": found.has_leader,
            "ConsistencyLevel": "",
        }
        answer = TransactionAnswer(errors=errors) if errors else found.answer
        return self._told(request, answer, about, meta)

    def _told(
        self,
        request: Request,
        answer: TransactionAnswer,
        about: dict[str, object] | None = None,
        headers: HeaderList = (),
    ) -> Response:
        members = [("Results", b"null"), ("Errors", b"null")]
        if answer.errors:
            errors = [{"OpIndex": each.place, "What": each.sentence} for each in answer.errors]
            members[1] = ("Errors", shapes.encode(errors))
        else:
            members[0] = ("Results", shapes.encode(list(map(_shown_result, answer.results))))
        members += [(name, shapes.encode(value)) for name, value in (about or {}).items()]
        status = 409 if answer.errors else 200
        body = shapes.object_of(members)
        return encoded_answer(self._agent, request, body, status=status, headers=headers)

    # What is asked.

    def _operations_in(self, body: bytes) -> tuple[tuple[Operation, ...], list[OperationError], bool]:
        """With those that are unfit, and whether one of them would have changed something."""
        try:
            raw = decode_json(body)
        except HttpRefusal as refusal:
            raise unreadable(refusal.sentence) from None
        if raw is not None and not isinstance(raw, list):
            kind = {dict: "object", str: "string", bool: "bool"}.get(type(raw), "number")
            raise unreadable(f"json: cannot unmarshal {kind} into Go value of type api.TxnOps")
        listed: list[object] = raw or []
        if len(listed) > OPERATIONS_MAX:
            sentence = f"Transaction contains too many operations ({len(listed)} > {OPERATIONS_MAX})"
            raise HttpRefusal(413, sentence)
        operations: list[Operation] = []
        errors: list[OperationError] = []
        items: list[ExternalItem] = []
        has_unfit_write = False
        for place, each in enumerate(listed):
            try:
                operation = self._operation_in(each, items)
            except (UnfitItem, UnfitOperation) as unfit:
                errors.append(OperationError(place, str(unfit)))
                has_unfit_write |= not isinstance(unfit, UnfitOperation) or unfit.is_write
                continue
            except BadDefinition as bad:
                raise unreadable(str(bad)) from None
            if isinstance(operation, EntryOperation):
                items.append(operation.item)
            if operation is not None:
                operations.append(operation)
        return tuple(operations), errors, has_unfit_write

    def _operation_in(self, raw: object, beside: list[ExternalItem]) -> Operation | None:
        fields = Fields(raw, type_name="api.TxnOp")
        for family in ("KV", "Node", "Service", "Check"):
            value = fields.value(family)
            if value is not None:
                inner = Fields(value, type_name=f"api.{family}TxnOp", outer=family)
                return self._key(inner) if family == "KV" else self._entry(family, inner, beside)
        if fields.value("Session") is not None:
            raise unreadable('json: unknown field "Session"')
        return None

    def _key(self, fields: Fields) -> KeyOperation:
        name = fields.text("Verb")
        verb = KEY_VERBS.get(name)
        if verb is None:
            raise UnfitOperation(f'unknown KV verb "{name}"', is_write=False)
        key, value = fields.text("Key"), _decoded(fields)
        if not key and verb not in (KeyOperationVerb.DELETE_TREE, KeyOperationVerb.GET_TREE):
            raise UnfitOperation("Must provide key", is_write=verb not in KEY_READS)
        if len(value) > self._value_bytes_max:
            raise HttpRefusal(
                413, f'Value for key "{key}" is too large ({len(value)} > {self._value_bytes_max} bytes)'
            )
        flags, index = _unsigned(fields, "Flags"), _unsigned(fields, "Index")
        return KeyOperation(verb, key.encode(), value, flags, index, fields.text("Session"))

    def _entry(self, family: str, fields: Fields, beside: list[ExternalItem]) -> EntryOperation:
        name = fields.text("Verb")
        verb = ENTRY_VERBS.get(name)
        if verb is None:
            raise UnfitOperation(f'unknown {family} verb "{name}"')
        inner = Fields(fields.value(family), type_name=f"api.{family}", outer=family)
        node = fields.text("Node") if family == "Service" else inner.text("Node")
        if not node:
            raise UnfitOperation("Must provide node")
        host = self._agent.view.node(node)
        if host is not None and host.owner:
            raise UnfitOperation(OWNED.format(host.name))
        return EntryOperation(verb, self._item(family, verb, inner, node, beside))

    def _item(
        self, family: str, verb: EntryVerb, fields: Fields, node: str, beside: list[ExternalItem]
    ) -> ExternalItem:
        """What is only named needs no more than a name."""
        modify = max(fields.integer("ModifyIndex"), 0)
        if verb not in (EntryVerb.SET, EntryVerb.CAS):
            if family == "Node":
                return ExternalItem(ExternalKind.NODE, node, "", b"", modify=modify)
            if family == "Service":
                service_id = fields.text("ID") or fields.text("Service")
                return ExternalItem(ExternalKind.SERVICE, node, service_id, b"", modify=modify)
            check_id = fields.text("CheckID") or fields.text("Name")
            return ExternalItem(ExternalKind.CHECK, node, check_id, b"", modify=modify)
        if family == "Node":
            return node_item(fields, self._agent.config.datacenter)
        if family == "Service":
            return service_item(fields, node)
        return check_item(fields, node, self._agent.view.node(node), beside)


def unreadable(sentence: str) -> HttpRefusal:
    return HttpRefusal(400, f"Failed to parse body: {sentence.removeprefix(PREFIX)}")


def _decoded(fields: Fields) -> bytes:
    try:
        value = fields.text("Value")
    except WrongType as wrong:
        place = "Go struct field KVTxnOp.KV.Value of type []uint8"
        raise unreadable(f"json: cannot unmarshal {wrong.found} into {place}") from None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise unreadable(f"illegal base64 data at input byte {_first_bad_byte(value)}") from None


def _first_bad_byte(value: str) -> int:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return next((place for place, each in enumerate(value) if each not in alphabet), len(value))


def _unsigned(fields: Fields, name: str) -> int:
    """Of 64 bits."""
    value = fields.value(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= UINT64_MAX:
        return value
    if value is None:
        return 0
    fields.text(name)  # for the words of a wrong type
    raise unreadable(f"json: cannot unmarshal number into Go struct field KVTxnOp.KV.{name} of type uint64")


def answer_in(answer: StoreAnswer) -> TransactionAnswer:
    if answer.outcome not in (StoreOutcome.DONE, StoreOutcome.CONFLICT):
        raise HttpRefusal(500, answer.extras.sentence if answer.extras is not None else "")
    if answer.extras is None or not answer.extras.transaction:
        is_done = answer.outcome is StoreOutcome.DONE
        raise HttpRefusal(500, DONE_UNSEEN.format(answer.revision) if is_done else NOT_DONE_UNSEEN)
    return decode_answer(answer.extras.transaction)


DONE_UNSEEN = "the transaction was done, at index {}, and its answer is not remembered any more"
NOT_DONE_UNSEEN = (
    "operations of the transaction failed, so nothing of it was done; which ones is not remembered any more"
)


def _shown_result(result: Result) -> ShownKey | msgspec.Raw:
    if not isinstance(result, KeyResult):
        return msgspec.Raw(shapes.object_of(list(shown_item(result.item).items())))
    record = result.record
    if record is None:
        return ShownKey(KvEntry(0, shown_key(result.key), 0, None, msgspec.UNSET, 0, 0))
    if record.value and not result.shows_value:
        record = msgspec.structs.replace(record, value=b"")
    return ShownKey(shown(result.key, record))
