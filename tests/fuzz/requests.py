"""HTTP: every route of the router's own table, with parameters and bodies of the right shape and odd values,
filters, and requests that are cut or run into one another.
"""

from __future__ import annotations

import logging
from random import Random

from adsum.api.endpoints import Endpoints
from adsum.api.rendering import ApiCounters
from adsum.http.router import Route
from adsum.logs.stream import LogCounters, LogStream
from adsum.observe.exposition import Exposition
from tests.api.agents import FakeAgent
from tests.fuzz.catalog import SERVICES
from tests.fuzz.participants import AGENTS, STRANGERS_MADE_UP
from tests.fuzz.trees import Input
from tests.fuzz.values import Values
from tests.observe.support import sources

# They do what they say, to a whole agent or to how it is reached: what follows would find nobody.
LEFT_OUT = ("/v1/agent/leave", "/v1/agent/monitor", "/v1/agent/reload")
PARAMETERS = (
    *("index", "wait", "stale", "consistent", "cached", "passing", "near", "node-meta", "dc", "ns", "tag"),
    *("filter", "pretty", "hash", "enable", "reason", "output", "service", "node", "name", "limit", "since"),
    *("replace-existing-checks", "format", "type", "partition", "note", "segment", "wan", "prune", "edns"),
)
SELECTORS = (
    *("Service.ID", "Service.Tags", "Service.Meta", "Checks.Status", "Node.Node", "ServiceName", "Output"),
    *("Notes", "ID", "Name", "Tags", "Meta.version", 'Meta["a b"]', "Port", "Nothing.Of.That"),
)
OPERATORS = ("==", "!=", "in", "not in", "matches", "not matches", "contains", "is empty", "is not empty")
PATTERNS = (
    *("a.{400}b", ".{0,230}c", "(a|b)*c", "(?i)web", "[[:alpha:]]+", "\\pL{3}", "(", "x{1000}"),
    *(".*.*.*.*b", "^$"),
)
RESTS = ("", "n0", "nobody", "serfHealth", "service:web-1", *SERVICES[:4])
JOINABLE = ("127.0.0.1", "::1", "192.0.2.1:1")
FILTERED = (
    *("/v1/health/state/any", "/v1/catalog/nodes", "/v1/agent/checks", "/v1/agent/services"),
    *("/v1/health/service/web-1", "/v1/catalog/service/web-1", "/v1/health/node/n0"),
)
METHODS = ("GET", "PUT", "POST", "HEAD", "DELETE", "OPTIONS", "PATCH")
STATUSES = ("passing", "warning", "critical", "any", "maybe")


class Requests:
    def __init__(self, values: Values) -> None:
        self.values = values
        self.random = values.random
        self._routes = [each for each in every_route() if each.path not in LEFT_OUT]

    def request(self) -> Input:
        route = self.random.choice(self._routes)
        methods = route.methods if self.values.chance(0.85) else METHODS
        content: dict[str, object] = {
            "method": self.random.choice(methods),
            "path": route.path + (self._rest(route) if route.rest else ""),
            "query": self._query(),
            "body": self._body(route.path) if "GET" not in route.methods else None,
            **self._framing(),
        }
        return Input("http", self.random.randrange(AGENTS), content)

    def filtered(self) -> Input:
        content = {
            "method": "GET",
            "path": self.random.choice(FILTERED),
            "query": [["filter", self.filter()]],
            "body": None,
            **self._framing(),
        }
        return Input("http", self.random.randrange(AGENTS), content)

    def _framing(self) -> dict[str, object]:
        """Where it is cut, how often it comes in one piece, and by how much its length is wrong."""
        return {
            "torn": self.random.randrange(1, 400) if self.values.chance(0.05) else None,
            "times": self.random.choice((1,) * 12 + (2, 20)),
            "length_off": self.random.choice((0,) * 20 + (1, -1, 1 << 40)),
        }

    def _rest(self, route: Route) -> str:
        if route.path == "/v1/agent/join/":  # a name would be resolved by the fuzzer's own host
            return self.random.choice(JOINABLE)
        if route.path == "/v1/agent/force-leave/":
            return self.random.choice(STRANGERS_MADE_UP).name
        if route.path == "/v1/event/fire/":
            return self.values.text()[:60]
        return self.random.choice(RESTS) if self.values.chance(0.6) else self.values.text()[:2_000]

    def _query(self) -> list[list[str]]:
        names = self.random.sample(PARAMETERS, k=self.random.choice((0, 1, 1, 2, 4)))
        return [[name, self._parameter(name)] for name in names]

    def _parameter(self, name: str) -> str:
        likely = {
            "index": str(self.values.integer()),
            "wait": self.random.choice(("0s", "1ms", "10ms", "-1s", "1e9s", "1h1x", "10")),
            "filter": self.filter(),
            "near": self.random.choice(("_agent", "n1", "nobody")),
            "node-meta": self.random.choice(("role:db", "a", ":", "a:b:c")),
            "service": self.random.choice(PATTERNS),
            "limit": str(self.values.integer()),
        }
        return likely.get(name, "") if self.values.chance(0.7) else self.values.text()[:1_000]

    def filter(self) -> str:
        terms = [self._term() for _ in range(self.random.choice((1, 1, 2, 3)))]
        terms *= self.random.choice((1, 1, 1, 250))
        joined = self.random.choice((" and ", " or ", " and not ")).join(terms)
        nested = self.random.choice((1, 1, 5, 300))
        return "(" * nested + joined + ")" * (nested if self.values.chance(0.95) else nested - 1)

    def _term(self) -> str:
        selector, operator = self.random.choice(SELECTORS), self.random.choice(OPERATORS)
        value = self.random.choice((self.random.choice(PATTERNS), self.values.text()[:80], "web-1"))
        if operator.startswith("is"):
            return f"{selector} {operator}"
        if "in" in operator.split():
            return f"`{value}` {operator} {selector}"
        return f"{selector} {operator} `{value}`"

    # Bodies.

    def _body(self, path: str) -> object:
        shape = self._shape(path)
        return None if shape is None else self.values.mutated(shape, times_max=2)

    def _shape(self, path: str) -> object:
        service = self.random.choice(SERVICES)
        match path:
            case "/v1/agent/service/register":
                return {**self._service(service), "Check": self._check(), "Checks": [self._check()]}
            case "/v1/agent/check/register":
                return {**self._check(), "ServiceID": self.random.choice(("", service))}
            case "/v1/agent/check/update/":
                return {"Status": self.random.choice(STATUSES), "Output": self.values.text()}
            case "/v1/catalog/register":
                entry = {"Node": "n0", "Address": self.values.host(), "Service": self._service(service)}
                return {**entry, "Check": {"Node": "n0", "CheckID": "c", "Name": "c", "Status": "passing"}}
            case "/v1/catalog/deregister":
                return {"Node": self.random.choice(("n0", "n1", "nobody")), "ServiceID": service}
            case "/v1/event/fire/":
                return self.values.octets().hex()[:200]
            case "/v1/operator/keyring":
                return {"Key": self.random.choice(("", "AAAA", "%%%"))}
            case "/v1/coordinate/update":
                return {
                    "Node": "n0",
                    "Coord": {"Vec": [0.0] * 8, "Error": 1.5, "Height": 1e-5, "Adjustment": 0.0},
                }
        return None

    def _service(self, service: str) -> dict[str, object]:
        return {
            "ID": service,
            "Name": service,
            "Tags": ["v1"],
            "Address": self.values.host(),
            "Port": 80,
            "Meta": {"version": "1"},
            "Weights": {"Passing": 1, "Warning": 1},
            "EnableTagOverride": False,
            "TaggedAddresses": {"lan": {"Address": self.values.host(), "Port": 80}},
            "Proxy": {"Config": {"a": [1, 2.5, None]}},
        }

    def _check(self) -> dict[str, object]:
        """One of any kind; those that are run look at this host's discard port, where nobody listens."""
        kinds: tuple[dict[str, object], ...] = (
            {"TTL": "10s"},
            {"HTTP": "http://127.0.0.1:9/", "Interval": "5s", "Timeout": "1s", "Header": {"a": ["b"]}},
            {"TCP": "127.0.0.1:9", "Interval": "5s"},
            {"UDP": "127.0.0.1:9", "Interval": "5s"},
            {"GRPC": "127.0.0.1:9/web", "Interval": "5s"},
            {"H2PING": "127.0.0.1:9", "Interval": "5s"},
            {"AliasNode": "n1"},
            {"AliasService": self.random.choice(SERVICES)},
            {"Args": ["true"], "Interval": "5s"},
        )
        number = self.random.randrange(12)
        return {
            "CheckID": f"check-{number}",
            "Name": "alive",
            "Notes": self._notes(),
            **self.random.choice(kinds),
        }

    def _notes(self) -> str:
        return self.random.choice(("", "n", "a" * 4_000, "ab" * 300))


def every_route() -> list[Route]:
    agent = FakeAgent()
    metrics = Exposition(sources(agent), agent.config.telemetry)
    log_stream = LogStream(logging.INFO, LogCounters())
    endpoints = Endpoints(agent, Random(0), ApiCounters(), metrics, log_stream)
    families = dict.fromkeys(endpoints.families().values())  # each once, in its order
    return [*endpoints.routes(), *(route for family in families for route in family())]
