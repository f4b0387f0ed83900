from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent

FOUND = {
    "Name": "web.service.consul",
    "Type": "SRV",
    "Rcode": "NOERROR",
    "Answers": ["web.service.consul. 0 IN SRV 1 1 80 n1.node.dc1.consul."],
    "Additional": ["n1.node.dc1.consul. 0 IN A 127.0.0.1"],
    "Reasons": ["Of 2 registered, 1 can be given.", "The answer is NOERROR with 1 record:"],
}


def test_the_answer_stands_under_its_reasons(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/resolve/web.service.consul"] = FOUND
    assert adsum("resolve", "web.service.consul", "-type=SRV") == (
        0,
        (
            "; Of 2 registered, 1 can be given.\n"
            "; The answer is NOERROR with 1 record:\n"
            "web.service.consul. 0 IN SRV 1 1 80 n1.node.dc1.consul.\n"
            "; Beside it:\n"
            "n1.node.dc1.consul. 0 IN A 127.0.0.1\n"
        ),
        "",
    )
    assert agent.asked[0].query == {"type": "SRV"}
    assert json.loads(adsum("resolve", "web.service.consul", "-o=json").out) == FOUND


@pytest.mark.parametrize(("rcode", "status"), [("NXDOMAIN", 3), ("NOERROR", 3), ("REFUSED", 1)])
def test_no_records_is_exit_status_3_and_no_answer_1(
    adsum: Adsum, agent: FakeAgent, rcode: str, status: int
) -> None:
    agent.answers["GET /v1/resolve/x.consul"] = FOUND | {"Rcode": rcode, "Answers": [], "Additional": []}
    assert adsum("resolve", "x.consul").status == status


@pytest.mark.parametrize(
    ("address", "name"), [("127.0.0.1", "1.0.0.127.in-addr.arpa"), ("::1", "1." + "0." * 31 + "ip6.arpa")]
)
def test_an_address_asks_who_is_there(adsum: Adsum, agent: FakeAgent, address: str, name: str) -> None:
    agent.answers[f"GET /v1/resolve/{name}"] = FOUND
    assert adsum("resolve", address).status == 0
    assert agent.asked[0].query == {"type": "PTR"}


def test_an_unknown_type_is_a_matter_of_usage(adsum: Adsum) -> None:
    assert adsum("resolve", "x", "-type=HINFO").status == 2
