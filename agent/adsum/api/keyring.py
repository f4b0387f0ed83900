"""/v1/operator/keyring: the keys of gossip, listed and changed on every member at once.

In Consul only servers take these; here any agent does, for each can ask all others. A failure names every
member that is in the way, and what to do about it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from adsum.api import parameters
from adsum.api.answers import json_answer
from adsum.api.api_types import EndpointFamily
from adsum.api.bodies import decode_json
from adsum.http.request import Query, Request
from adsum.http.response import Response, empty
from adsum.http.router import HttpRefusal, Route
from adsum.net.keyring import KeyringError
from adsum.peers.keyrings import INSTALL, REMOVE, USE, HeldKeys, RoundFailed

RELAY_FACTOR_MAX = 5
BODY_BYTES_MAX = 4_096
CHANGES = {"POST": INSTALL, "PUT": USE, "DELETE": REMOVE}
NUMBER = re.compile(r"[+-]?[0-9]+")


class KeyringEndpoints(EndpointFamily):
    def routes(self) -> list[Route]:
        methods = ("GET", "POST", "PUT", "DELETE")
        return [Route(methods, "/v1/operator/keyring", self.answer, body_bytes_max=BODY_BYTES_MAX)]

    async def answer(self, request: Request, _rest: str) -> Response:
        is_local_only = _check_query(request.query)
        keyrings = self._agent.keyrings
        try:
            if request.method == "GET":
                pool = _pool(self._agent.config.datacenter, await keyrings.gather())
                return json_answer(self._agent, request, [pool])
            key = _key(request)
            if is_local_only:
                sentence = "Invalid use of local-only: local-only can only be set for list requests"
                raise HttpRefusal(400, f"Bad request: {sentence}")
            await keyrings.change(CHANGES[request.method], key)
        except (KeyringError, RoundFailed) as error:
            raise self._refusal(error) from None
        return empty(200)

    def _refusal(self, error: KeyringError | RoundFailed) -> HttpRefusal:
        pool = f"{self._agent.config.datacenter} (LAN) error"
        if isinstance(error, KeyringError):
            lines = [f"{pool}: {error}"]
        else:
            summary = f"{pool}: {len(error.failures)}/{error.members} nodes reported failure"
            lines = [summary, *(f"{name}: {sentence}" for name, sentence in sorted(error.failures.items()))]
        count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
        listed = "".join(f"\t* {line}\n" for line in lines)
        return HttpRefusal(500, f"{count} occurred:\n{listed}\n")


def _pool(datacenter: str, held: Mapping[str, HeldKeys]) -> dict[str, object]:
    keys = Counter(key for each in held.values() for key in each.keys)
    primary = Counter(each.keys[0] for each in held.values() if each.keys)
    return {
        "WAN": False,
        "Datacenter": datacenter,
        "Segment": "",
        "Keys": dict(sorted(keys.items())),
        "PrimaryKeys": dict(sorted(primary.items())),
        "NumNodes": len(held),
    }


def _key(request: Request) -> str:
    try:
        raw = decode_json(request.body)
    except HttpRefusal as refusal:
        raise HttpRefusal(refusal.status, f"Bad request: {refusal.sentence}") from None
    fields = {str(name).lower(): value for name, value in raw.items()} if isinstance(raw, Mapping) else {}
    key = fields.get("key", "")
    if not isinstance(key, str):
        raise _bad('Request decode failed: the body has to be {"Key": "<base64>"}')
    return key


def _check_query(query: Query) -> bool:
    """Whether `local-only` is asked for. Nobody relays here, for everyone is asked over a connection."""
    relay = query.first("relay-factor")
    if relay and not NUMBER.fullmatch(relay):
        raise _bad(f'Error parsing relay factor: strconv.Atoi: parsing "{relay}": invalid syntax')
    if relay and not 0 <= int(relay) <= RELAY_FACTOR_MAX:
        raise _bad(f"Invalid relay-factor: Relay factor must be in range: [0, {RELAY_FACTOR_MAX}]")
    local = query.first("local-only")
    if local and local not in parameters.TRUE | parameters.FALSE:
        raise _bad(f'Error parsing local-only: strconv.ParseBool: parsing "{local}": invalid syntax')
    return local in parameters.TRUE


def _bad(sentence: str) -> HttpRefusal:
    return HttpRefusal(400, f"Bad request: {sentence}")
