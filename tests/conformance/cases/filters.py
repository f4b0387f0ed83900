"""filter= on every endpoint that has it: operators, selectors, missing keys, lists of objects, refusals."""

from __future__ import annotations

from urllib.parse import quote

from tests.conformance.case import Case, Family, Look, get
from tests.conformance.worlds import SHOP


def filtered(target: str, *expressions: str, look: Look | None = None) -> tuple[Case, ...]:
    look = look or Look()
    return tuple(
        Case(f"{target}: {each}", (get(f"{target}?filter={quote(each, safe='')}", look=look),), SHOP)
        for each in expressions
    )


# A refusal repeats the parser's own list of what it expected; only its beginning is a promise.
REFUSED = Look(only=("status", "headers.Content-Type"))

OPERATORS = filtered(
    "/v1/catalog/service/web",
    "ServicePort == 80",
    "ServicePort != 80",
    'ServicePort == "80"',
    "ServiceID == web1",
    'ServiceID == "web1"',
    "ServiceID == `web1`",
    "ServiceID==web1",
    "ServiceID!=web1",
    '"b" in ServiceTags',
    "b in ServiceTags",
    '"b" not in ServiceTags',
    "ServiceTags contains b",
    "ServiceTags not contains b",
    "ServiceTags is empty",
    "ServiceTags is not empty",
    "ServiceAddress is empty",
    'ServiceAddress contains "0.0"',
    '"0.0" in ServiceAddress',
    'ServiceAddress matches "^10[.]0[.]0[.][0-2]$"',
    'ServiceAddress not matches "^10"',
    'ServiceTags matches "b"',
    "ServiceMeta.rack == r2",
    "ServiceMeta.rack != r2",
    'ServiceMeta["rack"] == r2',
    "rack in ServiceMeta",
    "rack not in ServiceMeta",
    "ServiceMeta contains rack",
    "ServiceMeta is empty",
    "ServiceMeta.rack is empty",
    "ServiceMeta.rack is not empty",
    'ServiceMeta.rack matches "r[0-9]"',
    'ServiceMeta.rack not matches "r[0-9]"',
    "r2 in ServiceMeta.rack",
    "r2 not in ServiceMeta.rack",
    "ServiceWeights.Passing == 5",
    "ServiceEnableTagOverride == false",
    "ServiceEnableTagOverride != true",
    'ServiceConnect.Native == "false"',
    "Node == n1",
    "Address == `127.0.0.1`",
    "Datacenter == dc1",
    "TaggedAddresses.lan == `127.0.0.1`",
    "NodeMeta.nope == x",
    "ServiceKind is empty",
    "ServiceKind == ``",
    "ServiceID == web1 or ServiceID == web2",
    "ServicePort == 80 and b in ServiceTags",
    "not ServicePort == 80",
    "not not ServicePort == 80",
    "ServicePort == 80 or ServicePort == 81 and c in ServiceTags",
    "(ServicePort == 80 or ServicePort == 81) and c in ServiceTags",
    "not (ServicePort == 80 or ServicePort == 81)",
    "  ServicePort == 80  ",
    "(ServicePort == 80)",
    "( ServicePort == 80 )",
    "ServiceAddress == ``",
    'ServiceAddress == ""',
    "",
)

ENDPOINTS = (
    *filtered(
        "/v1/catalog/nodes",
        "Node == n1",
        "Node == zz",
        "Meta is empty",
        'Address == "127.0.0.1"',
        "lan in TaggedAddresses",
        "Meta.x != y",
    ),
    *filtered(
        "/v1/catalog/service/db",
        "ServiceTaggedAddresses.lan.Port == 5432",
        "ServiceTaggedAddresses.zz.Port == 1",
        "ServiceTaggedAddresses contains wan",
        "ServiceMeta.version == 12",
    ),
    *filtered(
        "/v1/catalog/node/n1",
        "Service == web",
        "Port == 80",
        "Tags contains primary",
        "Meta.rack == r1",
        "TaggedAddresses.lan.Address == `10.0.0.9`",
        "Weights.Passing == 5",
        "EnableTagOverride == true",
    ),
    *filtered("/v1/catalog/node-services/n1", "Service == web", "ID == db1", "Service == zz"),
    *filtered(
        "/v1/agent/services",
        "Service == web",
        "ID == web1",
        "Meta.rack == r1",
        "Tags is empty",
        "Service == zz",
        "Port == 80 or Port == 81",
        "Weights.Warning == 2",
        "Kind is empty",
        "Connect.Native == false",
    ),
    *filtered(
        "/v1/agent/checks",
        "Status == passing",
        "ServiceName == web",
        "CheckID == mem",
        "Name contains Service",
        "ServiceID is empty",
        "ServiceTags contains a",
        "Type == ttl",
        "Status == zz",
    ),
    *filtered("/v1/health/node/n1", "Status != passing", "CheckID == serfHealth", "ServiceName is empty"),
    *filtered("/v1/health/checks/web", "Status == critical", "ServiceID == web1", "Output is empty"),
    *filtered(
        "/v1/health/state/any",
        "ServiceName == web",
        "Notes is not empty",
        'Output matches "."',
        "Node == n1 and Status == warning",
    ),
    *filtered(
        "/v1/health/service/web",
        "Service.Port == 80",
        "Node.Node == n1",
        "Checks.Status == critical",
        "Checks.Status != passing",
        "not Checks.Status == critical",
        "Checks is empty",
        "Checks is not empty",
        "Service.Tags contains b and Checks.Status == passing",
        "Service.Meta.rack == r2",
        "Node.Meta.zz is empty",
        "Checks.CheckID contains `service:`",
        "Node.TaggedAddresses.lan == `127.0.0.1`",
        "Service.ID == web2",
    ),
    *filtered("/v1/health/connect/web", "Service.Port == 80"),
    *filtered("/v1/catalog/connect/web", "ServicePort == 80"),
)

REFUSALS = filtered(
    "/v1/catalog/service/web",
    "Nope == 1",
    "ServicePort == abc",
    "ServicePort",
    "ServicePort ==",
    "== 80",
    "ServicePort = 80",
    "ServicePort < 80",
    "ServicePort == 80 and",
    "ServicePort == 80 AND ServicePort == 81",
    "(ServicePort == 80",
    "serviceport == 80",
    "ServicePort contains 8",
    "ServicePort matches 8",
    "ServicePort is empty",
    "ServiceID in x",
    "CreateIndex == 1",
    'ServiceAddress matches "("',
    "ServiceEnableTagOverride == maybe",
    "ServiceTags == a",
    "ServiceMeta == a",
    "ServiceID == web-1",
    "a bc d",
    "ServiceMeta.rack.deep == 1",
    "not",
    look=REFUSED,
)
REFUSALS_ELSEWHERE = tuple(
    case
    for target in (
        "/v1/catalog/nodes",
        "/v1/catalog/node/n1",
        "/v1/agent/services",
        "/v1/agent/checks",
        "/v1/health/service/web",
        "/v1/health/state/any",
        "/v1/health/node/n1",
        "/v1/health/checks/web",
    )
    for case in filtered(target, "Nope == 1", look=REFUSED)
)
TEXTS = filtered("/v1/catalog/service/web", 'Nope == "2"', "ServicePort == abcd") + filtered(
    "/v1/agent/services", "Nope == 2"
)
WITH_PASSING = (
    Case(
        "filter and passing together",
        (
            get("/v1/health/service/web?passing&filter=" + quote("Service.Port != 80")),
            get("/v1/health/service/web?passing&filter=Nope"),
        ),
        SHOP,
    ),
)

FAMILY = Family("filters", OPERATORS + ENDPOINTS + REFUSALS + REFUSALS_ELSEWHERE + TEXTS + WITH_PASSING)
