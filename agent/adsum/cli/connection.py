"""The way to the agent: its HTTP API over TCP, TLS or a Unix socket, and what to say if it does not answer.

Where to, and as whom, comes from flags, then from ADSUM_* and then from CONSUL_* variables, so that shells
set up for Consul work. Every answer has a time and a size that it may take.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self

from adsum.cli.command import (
    FALSE,
    NOT_FOUND,
    TRUE,
    UNREACHABLE,
    CommandFailed,
    CommandFlag,
    FlagGroup,
    ParsedCommand,
    UsageError,
)
from adsum.cli.table import printable

Query = Sequence[tuple[str, str]]  # a name may repeat; parameters without a value are not sent

DEFAULT_ADDRESS = "127.0.0.1:8500"
HTTP_PORT, HTTPS_PORT = 8500, 8501
ANSWER_S_MAX = 30.0  # a disk that hangs holds a registration; people give up sooner than this
ANSWER_BYTES_MAX = 256 * 1024 * 1024  # far above any catalog, below what makes a host swap
SENTENCE_LENGTH_MAX = 4096  # of a refusal that is repeated to a person
CHUNK_BYTES_MAX = 64 * 1024
LOOK_INTERVAL_S = 0.05

CONNECTION = FlagGroup(
    "Which agent to ask, and as whom",
    (
        CommandFlag("http-addr", f"Where its HTTP API is; {DEFAULT_ADDRESS} if not given.", "ADDRESS"),
        CommandFlag("token", "Token to send.", "TOKEN"),
        CommandFlag("token-file", "File that holds the token.", "FILE"),
        CommandFlag("ca-file", "Certificate of the authority to trust.", "FILE"),
        CommandFlag("ca-path", "Folder of such certificates.", "FOLDER"),
        CommandFlag("client-cert", "Our certificate, where the agent asks for one.", "FILE"),
        CommandFlag("client-key", "Its key.", "FILE"),
        CommandFlag(
            "tls-server-name", "Name that the agent's certificate is for, if not the address.", "NAME"
        ),
    ),
)
QUERY = FlagGroup(
    "Which data to ask for",
    (
        CommandFlag("datacenter", "Data centre to ask about; the agent's own if not given.", "NAME"),
        CommandFlag("stale", "Any server may answer."),
    ),
)
# Flags whose variable is not simply their name.
VARIABLES = {"token": "HTTP_TOKEN", "token-file": "HTTP_TOKEN_FILE", "ca-file": "CACERT", "ca-path": "CAPATH"}


class AgentUnreachable(CommandFailed):
    """Nobody answered, or nobody that is an agent."""

    status = UNREACHABLE


class BrokenOff(AgentUnreachable):
    """The connection ended where an answer was due."""


class AgentRefused(CommandFailed):
    """The agent answered, and the answer is no; its own sentence says why."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        if code == http.HTTPStatus.NOT_FOUND:
            self.status = NOT_FOUND


def data_query(call: ParsedCommand) -> list[tuple[str, str]]:
    return [("dc", call.text("datacenter")), ("stale", "1" if call.is_on("stale") else "")]


def catalog_query(call: ParsedCommand) -> list[tuple[str, str]]:
    pairs = data_query(call)
    for text in call.texts("node-meta"):
        name, has_value, value = text.partition("=")
        if not name or not has_value:
            raise UsageError(f'-node-meta needs key=value, not "{text}"')
        pairs.append(("node-meta", f"{name}:{value}"))
    return pairs


@contextmanager
def blaming_flags() -> Iterator[None]:
    """Around a question that passes values of flags on as they stand, for the agent to make sense of."""
    try:
        yield
    except AgentRefused as refused:
        if refused.code == http.HTTPStatus.BAD_REQUEST:
            raise UsageError(str(refused)) from None
        raise


class Target(NamedTuple):
    shown: str  # as people are told
    host: str
    port: int
    prefix: str  # of every path, where a proxy stands before the agent
    socket_path: str
    is_tls: bool
    shows_certificate: bool = False


def connect(call: ParsedCommand, answer_s_max: float | None = None) -> Api:
    target = _target(call)
    headers = {"Host": "localhost"} if target.socket_path else {}
    if token := _token(call):
        headers["X-Consul-Token"] = token
    if credentials := _variable("HTTP_AUTH")[0]:
        from base64 import b64encode

        headers["Authorization"] = f"Basic {b64encode(credentials.encode()).decode()}"
    return Api(target, headers, _dialler(call, target, answer_s_max))


class Api:
    """One kept connection, made by the first request."""

    def __init__(self, target: Target, headers: Mapping[str, str], dial: Callable[[], socket.socket]) -> None:
        self.shown = target.shown
        self._target = target
        self._headers = headers
        self._dial = dial
        self._line = _Line(target, dial)
        self._has_answered = False
        self._last_headers: Mapping[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.close()

    def header(self, name: str) -> str:
        """Of the last answer; empty if it has none."""
        return self._last_headers.get(name.lower(), "")

    def get_list(self, path: str, query: Query = ()) -> list[Any]:
        found = self._get(path, query)
        if not isinstance(found, list):
            raise self._no_agent("gives no list where an agent would")
        return found

    def get_object(self, path: str, query: Query = ()) -> dict[str, Any]:
        found = self.get_object_or_null(path, query)
        if found is None:
            raise self._no_agent("gives no object where an agent would")
        return found

    def get_object_or_null(self, path: str, query: Query = ()) -> dict[str, Any] | None:
        found = self._get(path, query)
        if found is not None and not isinstance(found, dict):
            raise self._no_agent("gives no object where an agent would")
        return found

    def put(self, path: str, query: Query = (), body: object = None) -> bytes:
        encoded = b"" if body is None else json.dumps(body).encode()
        return self.send("PUT", path, query, encoded)

    def send(self, method: str, path: str, query: Query = (), body: bytes = b"") -> bytes:
        """A body as it stands."""
        return self._read(self._ask(method, path, query, body))

    def follow(self, path: str, query: Query = ()) -> Iterator[bytes]:
        """What arrives as it arrives, for as long as the agent goes on."""
        response = self._ask("GET", path, query)
        assert self._line.sock is not None
        self._line.sock.settimeout(None)
        while True:
            try:
                chunk = response.read1(CHUNK_BYTES_MAX)
            except (OSError, http.client.HTTPException):
                return
            if not chunk:
                return
            yield chunk

    def is_gone(self, within_s: float) -> bool:
        """Waits until nobody takes connections there any more: a connection ends when the agent does."""
        self._line.close()
        end_s = time.monotonic() + within_s
        while (left_s := end_s - time.monotonic()) > 0:
            try:
                with self._dial() as line:
                    line.settimeout(left_s)
                    line.recv(1)
            except (ConnectionRefusedError, FileNotFoundError):
                return True
            except OSError:
                pass
            time.sleep(LOOK_INTERVAL_S)
        return False

    def _get(self, path: str, query: Query) -> object:
        body = self._read(self._ask("GET", path, query))
        try:
            return json.loads(body)
        except ValueError:
            raise self._no_agent("answers, but not in JSON as an agent would") from None

    def _ask(
        self, method: str, path: str, query: Query, body: bytes | None = None
    ) -> http.client.HTTPResponse:
        encoded = urllib.parse.urlencode([(name, value) for name, value in query if value])
        quoted = urllib.parse.quote(os.fsencode(path))  # a key may have bytes that are no text
        url = f"{self._target.prefix}{quoted}" + (f"?{encoded}" if encoded else "")
        with self._exchange():
            self._line.request(method, url, body, dict(self._headers))
            response = self._line.getresponse()
        self._has_answered = True
        self._last_headers = {name.lower(): value for name, value in response.headers.items()}
        if response.status != http.HTTPStatus.OK:
            # A refusal's own words, in which nothing steers the terminal.
            told = self._read(response)[:SENTENCE_LENGTH_MAX].decode(errors="replace").strip()
            told = "\n".join(map(printable, told.expandtabs().splitlines()))
            if reason := self.header("X-Adsum-Reason"):
                told = f"{told}: {printable(reason)}"
            fallback = f"the agent answered {response.status} {response.reason} to {method} {path}"
            raise AgentRefused(response.status, told or fallback)
        return response

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        with self._exchange():
            body = response.read(ANSWER_BYTES_MAX + 1)
        if len(body) > ANSWER_BYTES_MAX:
            raise CommandFailed(f"the answer is longer than {ANSWER_BYTES_MAX} bytes; ask for less")
        return body

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """One that is broken off, by whatever, takes its connection with it: the next begins a new one."""
        try:
            yield
        except BaseException as problem:
            self._line.close()
            if isinstance(problem, ConnectionResetError):  # also where it ended without a word
                raise BrokenOff(str(self._unreachable(problem))) from None
            if isinstance(problem, OSError | http.client.HTTPException):
                raise self._unreachable(problem) from None
            raise

    def _no_agent(self, what: str) -> AgentUnreachable:
        return AgentUnreachable(
            f"what listens at {self._target.shown} {what}: name the agent with -http-addr"
        )

    def _unreachable(self, problem: Exception) -> AgentUnreachable:
        shown = self._target.shown
        if isinstance(problem, TimeoutError):
            return AgentUnreachable(f"the agent at {shown} did not answer within {ANSWER_S_MAX:.0f} s")
        if self._has_answered:  # so what listened there was what we took it for
            return AgentUnreachable(
                f"the agent at {shown} has ended, or broke the connection: ask again once it runs"
            )
        if self._target.is_tls:
            from adsum.cli.certificates import about

            if told := about(problem, shown, shows_certificate=self._target.shows_certificate):
                return AgentUnreachable(told)
        if isinstance(problem, http.client.HTTPException | ConnectionResetError):
            return AgentUnreachable(
                f"what listens at {shown} does not speak HTTP; if it speaks TLS, say -http-addr=https://…"
            )
        reason = getattr(problem, "strerror", None) or str(problem)
        return AgentUnreachable(
            f"cannot reach the agent at {shown} ({reason.lower()}): is it running? "
            "Try `adsum agent -dev`, or name another with -http-addr"
        )


class _Line(http.client.HTTPConnection):
    def __init__(self, target: Target, dial: Callable[[], socket.socket]) -> None:
        super().__init__(target.host, target.port)
        self._dial = dial

    def connect(self) -> None:
        self.sock = self._dial()


def _dialler(call: ParsedCommand, target: Target, answer_s_max: float | None) -> Callable[[], socket.socket]:
    if answer_s_max is None:
        answer_s_max = ANSWER_S_MAX
    if target.socket_path:
        return lambda: _dial_unix(target.socket_path, answer_s_max)
    address = (target.host, target.port)
    if not target.is_tls:
        return lambda: socket.create_connection(address, answer_s_max)
    from adsum.cli.certificates import context_of

    files = [setting(call, flag) for flag in ("ca-file", "ca-path", "client-cert", "client-key")]
    context = context_of(*files, verifies=_variable("HTTP_SSL_VERIFY")[0] not in FALSE)
    name = setting(call, "tls-server-name") or target.host

    def dial() -> socket.socket:
        return context.wrap_socket(socket.create_connection(address, answer_s_max), server_hostname=name)

    return dial


def _dial_unix(path: str, answer_s_max: float) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    try:
        line.settimeout(answer_s_max)
        line.connect(path)
    except OSError:
        line.close()
        raise
    return line


def setting(call: ParsedCommand, flag: str) -> str:
    name = VARIABLES.get(flag) or flag.upper().replace("-", "_")
    return call.text(flag) or _variable(name)[0]


def _variable(name: str) -> tuple[str, str]:
    """Its value, and the name under which it was found."""
    for variable in (f"ADSUM_{name}", f"CONSUL_{name}"):
        if value := os.environ.get(variable, ""):
            return value, variable
    return "", ""


def _token(call: ParsedCommand) -> str:
    token = setting(call, "token")
    if not token and (path := setting(call, "token-file")):
        try:
            with open(path) as file:
                token = file.read(SENTENCE_LENGTH_MAX).strip()
        except (OSError, UnicodeDecodeError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise UsageError(f"the token file {path} cannot be read: {reason}") from None
    if not token.isascii() or not token.isprintable():
        raise UsageError("the token holds characters that no header can carry")
    return token


def _target(call: ParsedCommand) -> Target:
    address, source = _variable("HTTP_ADDR")
    if call.text("http-addr"):
        address, source = call.text("http-addr"), "-http-addr"
    address = address or DEFAULT_ADDRESS
    if address.startswith("unix://"):
        return Target(address, "localhost", HTTP_PORT, "", address.removeprefix("unix://"), is_tls=False)
    scheme, has_scheme, rest = address.partition("://")
    if not has_scheme:
        scheme, rest = "https" if _variable("HTTP_SSL")[0] in TRUE else "http", address
    try:
        at_home = "127.0.0.1" if rest.startswith(":") else ""  # as Go dials ":8500"
        parts = urllib.parse.urlsplit(f"//{at_home}{rest}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if scheme not in ("http", "https") or not host or not host.isprintable() or " " in rest:
        raise UsageError(f'{source} must be host:port, http(s)://host:port or unix://path, not "{address}"')
    is_tls = scheme == "https"
    port = port or (HTTPS_PORT if is_tls else HTTP_PORT)
    prefix, shows_certificate = parts.path.rstrip("/"), bool(setting(call, "client-cert"))
    return Target(rest, host, port, prefix, "", is_tls=is_tls, shows_certificate=shows_certificate)
