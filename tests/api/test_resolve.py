from __future__ import annotations

from typing import Any

import pytest

from adsum.catalog.definitions import CheckStatus
from tests.api.agents import Asker, decoded, refused

CRITICAL = (
    "web2 on n1 (127.0.0.1, port 81) is left out: it is critical. "
    'Check "alive" is critical (connection refused).'
)


@pytest.fixture
def asker() -> Asker:
    asker = Asker()
    asker.agent.put_service("web", port=80)
    asker.agent.put_service("web2", "web", port=81)
    asker.agent.report("service:web2", CheckStatus.CRITICAL, "connection refused")
    return asker


async def test_a_name_is_answered_with_its_records_and_its_reasons(asker: Asker) -> None:
    found: Any = decoded(await asker.ask("/v1/resolve/web.service.consul?type=srv"))
    assert found == {
        "Name": "web.service.consul",
        "Type": "SRV",
        "Rcode": "NOERROR",
        "Answers": ["web.service.consul. 0 IN SRV 1 1 80 n1.node.dc1.consul."],
        "Additional": ["n1.node.dc1.consul. 0 IN A 127.0.0.1", 'n1.node.dc1.consul. 0 IN TXT "rack=r1"'],
        "Reasons": [
            "web.service.consul. asks for the service web.",
            "Of 2 registered, 1 can be given.",
            "web on n1 (127.0.0.1, port 80) is passing and is given.",
            CRITICAL,
            "The answer is NOERROR with 1 record:",
        ],
    }


async def test_an_unknown_name_says_why_there_is_nothing(asker: Asker) -> None:
    found: Any = decoded(await asker.ask("/v1/resolve/nope.service.consul"))
    assert (found["Type"], found["Rcode"], found["Answers"]) == ("A", "NXDOMAIN", [])
    assert "No instance of nope is registered on any node." in found["Reasons"]


async def test_what_is_no_name_is_a_format_error_with_a_reason(asker: Asker) -> None:
    found: Any = decoded(await asker.ask(f"/v1/resolve/{'x' * 64}.consul"))
    assert (found["Rcode"], found["Answers"]) == ("FORMERR", [])
    assert "longer than 63 bytes" in found["Reasons"][0]


async def test_bad_questions_are_refused(asker: Asker) -> None:
    assert refused(await asker.ask("/v1/resolve/")) == (400, "Missing DNS name")
    status, sentence = refused(await asker.ask("/v1/resolve/web?type=HINFO"))
    assert status == 400
    assert sentence.startswith("Unknown type: HINFO; one of A, ")
