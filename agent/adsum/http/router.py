"""From a path to its handler, with the rules that hold for every endpoint.

Who may ask at all (browsers, blocked endpoints, writers' addresses) is decided here, and so is what Consul
answers where no handler is asked: 404 with nothing, 405 with the methods that would do. Handlers raise
`HttpRefusal` for what the caller did wrong. For want of a file or of memory they are put off with a 503.
Anything else they raise is our bug: a 500, a traceback in the log, a count.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field

from adsum.frozen import dataclass
from adsum.http.browser import BrowserRules, Foreign, check_browser
from adsum.http.limits import HttpCounters
from adsum.http.request import VERBATIM_UNDER, BadPath, ClientGone, Request, TakesAnswer, printable
from adsum.http.response import HeaderList, Response, empty, encode_headers, text, too_large_sentence
from adsum.logs.complaints import Complaints
from adsum.logs.system_errors import is_shortage, told

Handler = Callable[[Request, str], Awaitable[Response]]
Answered = TakesAnswer
# Beside the handler, for what needs no task of its own. Asked in the loop that hears all idle connections, so
# it must not take long, and only for a request that came whole, alone and with a known head, so the handler
# has to be able to do all that this can. True: it took the request, and calls `answered` once, now or later.
# False: it did nothing, and the handler is asked. It may raise what a handler may.
Begin = Callable[[Request, str, Answered], bool]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Clients that send POST where Consul's own takes only PUT (Spring posts event/fire).
POST_IS_PUT_UNDER = ("/v1/agent/", "/v1/session/", "/v1/event/fire/")
READING = ("GET", "HEAD", "OPTIONS")
BUG = "This agent failed to answer because of a bug of its own; its log has the details."
RETRY_SOON = (("Retry-After", "1"),)

logger = logging.getLogger("agent.http")


class HttpRefusal(Exception):
    """The caller can't have this, and the sentence says why or what to do. Raised before anything changed."""

    def __init__(self, status: int, sentence: str, headers: HeaderList = ()) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.headers = headers


@dataclass(frozen=True, slots=True)
class Route:
    methods: tuple[str, ...]
    path: str
    handler: Handler
    rest: bool = False  # the path ends in "/", and what follows it is the handler's id: "batman/pg0"
    body_bytes_max: int | None = None  # below the server's own limit
    begin: Begin | None = None

    @property
    def allow(self) -> str:
        return ",".join(("OPTIONS", *self.methods))


@dataclass(frozen=True, slots=True)
class HttpRules:
    """`http_config`, as far as it concerns every endpoint."""

    block_endpoints: tuple[str, ...] = ()
    allow_write_http_from: tuple[Network, ...] = ()  # empty: from everywhere
    response_headers: HeaderList = ()
    browser: BrowserRules = field(default_factory=BrowserRules)


# By the beginning of their paths; made, once, when the first of them is asked. One family may have several
# beginnings, and no path has two.
Families = Mapping[str, Callable[[], list[Route]]]


class Prefix:
    """Of a route with a rest."""

    __slots__ = ("is_alone", "path", "route")

    def __init__(self, route: Route) -> None:
        self.path = route.path.encode()
        self.route = route
        self.is_alone = True  # nothing that begins with it is another's, or is blocked


class Router:
    def __init__(
        self,
        routes: Sequence[Route],
        rules: HttpRules | None = None,
        counters: HttpCounters | None = None,
        families: Families | None = None,
    ) -> None:
        self._exact: dict[bytes, Route] = {}
        self._prefixes: dict[bytes, Prefix] = {}
        self._recent: Prefix | None = None  # the last one that was found, if it is alone
        self._depth_max = 0
        self._with_begin: tuple[bytes, ...] = ()
        self._rules = HttpRules() if rules is None else rules
        self._blocked = tuple(begins.encode() for begins in self._rules.block_endpoints)
        self._families = {begins.encode(): make for begins, make in (families or {}).items()}
        self._beginnings = tuple(self._families)
        self._add(routes)
        self._counters = HttpCounters() if counters is None else counters
        self._complaints = Complaints(logger)
        self._site_headers = encode_headers(self._rules.response_headers)

    def _add(self, routes: Sequence[Route]) -> None:
        """In time for every path that they answer: what was asked before is not looked at again."""
        known = len(self._exact) + len(self._prefixes)
        self._exact |= {route.path.encode(): route for route in routes if not route.rest}
        self._prefixes |= {route.path.encode(): Prefix(route) for route in routes if route.rest}
        assert len(self._exact) + len(self._prefixes) == known + len(routes), "two routes share a path"
        assert all(route.path.startswith("/") for route in routes)
        assert all(path.endswith(b"/") for path in self._prefixes)
        self._depth_max = max((path.count(b"/") for path in self._prefixes), default=0)
        self._with_begin += tuple(route.path.encode() for route in routes if route.begin is not None)
        self._recent = None
        for path, prefix in self._prefixes.items():
            others = (*self._prefixes, *self._exact, *self._blocked, *self._beginnings)
            is_above = any(other.startswith(path) for other in others if other != path)
            prefix.is_alone = not (is_above or path.startswith(self._blocked))

    async def answer(self, request: Request) -> Response:
        try:
            admitted = self._admit(request)
            if isinstance(admitted, Response):
                response = admitted
            else:
                route, rest = admitted
                response = await route.handler(request, rest)
        except ClientGone:
            raise
        except Exception as error:
            response = self._answer_to(error, request)
        response.set_site_headers(self._site_headers)
        return response

    def begin(self, request: Request) -> bool:
        """Whether the request was taken without a task. If not, nothing was done and `answer` is next."""
        if not request.target.startswith(self._with_begin):
            return False
        request.site_headers = self._site_headers
        try:
            admitted = self._admit(request)
            if isinstance(admitted, Response):
                return False
            route, rest = admitted
            return route.begin is not None and route.begin(request, rest, request.answered)
        except Exception as error:
            request.answered(self._answer_to(error, request))
            return True

    def _admit(self, request: Request) -> tuple[Route, str] | Response:
        """The route and its rest, or what is answered without a handler. Raises the refusals."""
        check_browser(self._rules.browser, request)
        path, recent = _path_bytes(request), self._recent
        route: Route | None
        if recent is not None and path.startswith(recent.path):
            route = recent.route
        else:
            if path.startswith(self._blocked):
                self._counters.rejected["blocked_endpoint"] += 1
                raise HttpRefusal(403, "Endpoint is blocked by agent configuration")
            if path.startswith(self._beginnings):
                self._load(path)
            route = self._find_route(path)
            if route is None:
                return empty(404)
        if request.method not in route.methods:
            if not _is_put_by_post(request, route):
                allow = (("Allow", route.allow),)
                if request.method == "OPTIONS":
                    return empty(200, allow)
                return text(405, f"method {request.method} not allowed", allow)
            request.method = "PUT"
        if request.method not in READING:
            self._check_write(request, route)
        rest = path[len(route.path) :]
        if path.startswith(VERBATIM_UNDER):
            return route, rest.decode(errors="surrogateescape")
        return route, printable(rest)

    def _answer_to(self, error: Exception, request: Request) -> Response:
        if isinstance(error, HttpRefusal):
            return text(error.status, error.sentence, error.headers)
        if isinstance(error, BadPath):
            return text(400, str(error)) if str(error) else empty(400)
        if isinstance(error, Foreign):
            self._counters.rejected[error.cause] += 1
            self._complaints.say(error.cause, "Refused a browser at %s: %s", request.peer, error.sentence)
            return text(403, error.sentence)
        if is_shortage(error):
            self._counters.rejected["shortage"] += 1
            self._complaints.say("shortage", "A request could not be answered: %s", told(error))
            why = f"This agent cannot do that now; try again in a second. Its operator: {told(error)}\n"
            return text(503, why, RETRY_SOON)
        # A bug in one handler must not end the agent.
        self._counters.handler_errors += 1
        logger.error("Could not answer %s %r", request.method, request.target[:200], exc_info=error)
        return text(500, BUG)

    def _load(self, path: bytes) -> None:
        """For good once it is done: it may fail for want of a file, and be tried again."""
        beginning = next(filter(path.startswith, self._families))
        make = self._families[beginning]
        routes = make()
        self._families = {begins: other for begins, other in self._families.items() if other != make}
        self._beginnings = tuple(self._families)
        self._add(routes)

    def _find_route(self, path: bytes) -> Route | None:
        """Looked up anew each time: ids are without number, and to remember what each is costs as much."""
        if path in self._exact:
            return self._exact[path]
        found, end = None, 0
        for _ in range(self._depth_max):
            end = path.find(b"/", end) + 1
            if end == 0:  # Consul redirects `/v1/kv?keys` to `/v1/kv/?keys`
                prefix = self._prefixes.get(path + b"/")
                return prefix.route if prefix is not None else found
            prefix = self._prefixes.get(path[:end])
            if prefix is not None:
                found = prefix.route
                if prefix.is_alone:
                    self._recent = prefix
                    break
        return found

    def _check_write(self, request: Request, route: Route) -> None:
        allowed = self._rules.allow_write_http_from
        # Who may write to a unix socket is decided by its file mode.
        if allowed and request.peer != "unix":
            address = ipaddress.ip_address(request.peer.partition("%")[0])
            if not any(address in network for network in allowed):
                self._counters.rejected["write_source"] += 1
                raise HttpRefusal(403, "Access is restricted")
        size_max = route.body_bytes_max
        if size_max is not None and len(request.body) > size_max:
            self._counters.rejected["body_too_large"] += 1
            raise HttpRefusal(413, too_large_sentence(len(request.body), size_max))


def _path_bytes(request: Request) -> bytes:
    """The path's own, which it has to be decoded for only where it is not as plain as most are."""
    raw = request.target.partition(b"?")[0]
    find = raw.find  # half the price of `in`
    if find(b"/") or find(b"%") >= 0 or find(b"//") >= 0 or find(b"/.") >= 0 or find(b"#") >= 0:
        return request.path.encode(errors="surrogateescape")
    return raw


def _is_put_by_post(request: Request, route: Route) -> bool:
    return (
        request.method == "POST"
        and "PUT" in route.methods
        and request.path.startswith(POST_IS_PUT_UNDER)
        and not request.headers.has("origin")
    )
