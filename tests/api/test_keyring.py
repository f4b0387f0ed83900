"""/v1/operator/keyring, in Consul's shapes; what a cluster does with it is tested in tests/agent."""

from __future__ import annotations

import base64
from dataclasses import replace

import cbor2
import pytest

from adsum.address import Address
from adsum.net.calls import Declined
from adsum.peers.peer_rpc import ASK_TIMEOUT_S
from tests.api.agents import CONFIG, Asker, FakeAgent, refused

PATH = "/v1/operator/keyring"
OLD, NEW = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))


@pytest.fixture
def asker() -> Asker:
    return Asker(FakeAgent(replace(CONFIG, encrypt=OLD)))


class Elsewhere:
    """The other member: answers with these keys, or declines."""

    def __init__(self, *keys: str, decline: str = "") -> None:
        self._keys = keys
        self._decline = decline

    async def ask(self, to: Address, method: str, body: bytes, *, timeout_s: float = ASK_TIMEOUT_S) -> bytes:
        if self._decline:
            raise Declined("keyring", self._decline)
        return cbor2.dumps(list(self._keys))


def beside(asker: Asker, other: Elsewhere) -> None:
    asker.agent.meet("web", "10.0.0.7")
    asker.agent.keyrings._peer_rpc = other


async def change(asker: Asker, method: str, key: str) -> tuple[int, str]:
    response = await asker.ask(PATH, method, {"Key": key})
    return response.status, response.body.plain.decode()


async def keys(asker: Asker) -> object:
    pools = await asker.json(PATH)
    assert isinstance(pools, list)
    return [(pool["Keys"], pool["PrimaryKeys"]) for pool in pools]


async def test_keys_are_counted_over_all_members(asker: Asker) -> None:
    """Literal: Consul's fields in Consul's order, but for the pool across datacenters."""
    beside(asker, Elsewhere(NEW, OLD))
    assert await asker.json(PATH) == [
        {
            "WAN": False,
            "Datacenter": "dc1",
            "Segment": "",
            "Keys": {OLD: 2, NEW: 1},
            "PrimaryKeys": {OLD: 1, NEW: 1},
            "NumNodes": 2,
        }
    ]


async def test_a_key_is_installed_used_and_the_old_one_removed(asker: Asker) -> None:
    assert await change(asker, "POST", NEW) == (200, "")
    assert await keys(asker) == [({OLD: 1, NEW: 1}, {OLD: 1})]
    assert await change(asker, "PUT", NEW) == (200, "")
    assert await change(asker, "DELETE", OLD) == (200, "")
    assert await keys(asker) == [({NEW: 1}, {NEW: 1})]


async def test_a_failure_names_each_member_in_consul_s_form(asker: Asker) -> None:
    beside(asker, Elsewhere(OLD))
    asker.agent.keyring.install(NEW)
    lines = ["dc1 (LAN) error: 1/2 nodes reported failure", "web: it does not hold this key yet"]
    status, sentence = await change(asker, "PUT", NEW)
    assert status == 500
    assert sentence.startswith(f"2 errors occurred:\n\t* {lines[0]}\n\t* {lines[1]}: ")
    assert sentence.endswith("\n\n")
    beside(asker, Elsewhere(decline="8 keys are installed already"))
    status, sentence = await change(asker, "POST", NEW)
    assert (status, "\t* web: 8 keys are installed already\n" in sentence) == (500, True)


async def test_the_primary_key_is_not_removed(asker: Asker) -> None:
    status, sentence = await change(asker, "DELETE", OLD)
    assert (status, "this is its primary key: use another one first" in sentence) == (500, True)


async def test_what_is_no_key_is_refused_with_what_would_be(asker: Asker) -> None:
    for key in ("xx", "eHg=", ""):
        status, sentence = await change(asker, "POST", key)
        assert status == 500
        assert sentence.startswith("1 error occurred:\n\t* dc1 (LAN) error: ")
        assert "adsum keygen" in sentence


async def test_without_encryption_all_verbs_say_so() -> None:
    plain = Asker()
    empty = "1 error occurred:\n\t* dc1 (LAN) error: Keyring is empty (encryption not enabled)\n\n"
    assert refused(await plain.ask(PATH)) == (500, empty)
    for method in ("POST", "PUT", "DELETE"):
        status, sentence = await change(plain, method, NEW)
        assert (status, "No keyring to modify (encryption not enabled)" in sentence) == (500, True)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("relay-factor=9", "Bad request: Invalid relay-factor: Relay factor must be in range: [0, 5]"),
        (
            "relay-factor=x",
            'Bad request: Error parsing relay factor: strconv.Atoi: parsing "x": invalid syntax',
        ),
        (
            "local-only=maybe",
            'Bad request: Error parsing local-only: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
    ],
)
async def test_parameters_are_checked_in_consul_s_words(asker: Asker, query: str, expected: str) -> None:
    assert refused(await asker.ask(f"{PATH}?{query}")) == (400, expected)
    assert (await asker.ask(f"{PATH}?relay-factor=5&local-only=true")).status == 200


async def test_only_a_list_may_be_local(asker: Asker) -> None:
    refusal = refused(await asker.ask(f"{PATH}?local-only=1", "POST", {"Key": NEW}))
    assert refusal == (
        400,
        "Bad request: Invalid use of local-only: local-only can only be set for list requests",
    )


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "Bad request: Request decode failed: EOF"),
        (b"xx", "Bad request: Request decode failed: invalid character 'x' looking for beginning of value"),
        (b'{"Key":5}', 'Bad request: Request decode failed: the body has to be {"Key": "<base64>"}'),
    ],
)
async def test_bodies_that_name_no_key_are_the_client_s_fault(
    asker: Asker, body: bytes, sentence: str
) -> None:
    assert refused(await asker.ask(PATH, "PUT", body)) == (400, sentence)


async def test_a_body_larger_than_any_key_is_not_read(asker: Asker) -> None:
    assert (await asker.ask(PATH, "POST", b"x" * 5_000)).status == 413


async def test_other_methods_are_told_which_would_do(asker: Asker) -> None:
    response = await asker.ask(PATH, "PATCH")
    assert (response.status, dict(response.headers)["Allow"]) == (405, "OPTIONS,GET,POST,PUT,DELETE")
