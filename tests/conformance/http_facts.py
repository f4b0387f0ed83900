"""Sends one HTTP request, byte for byte as the case wrote it, and reduces the answer to comparable facts."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import time
from dataclasses import dataclass

from tests.conformance.case import INDEX_OF_KEY, OWN_HTTP, SESSION, Json, Request, get
from tests.conformance.normalise import Normaliser
from tests.system.agents import Agent

PRESENT = "<present>"
# Value as sent. Content-Length and Transfer-Encoding are left out, except that an empty body must say so:
# which of the two Go picks depends on the size. X-Consul-Default-ACL-Policy and its like are newer than the
# Consul we compare with.
HEADERS_BY_VALUE = (
    "Content-Type",
    "Allow",
    "Vary",
    "Location",
    "Content-Encoding",
    "X-Content-Type-Options",
    "Content-Security-Policy",
    "X-Consul-Knownleader",
    "X-Consul-Effective-Consistency",
    "X-Consul-Reason",
    "X-Consul-Translate-Addresses",
    "X-Cache",
)
HEADERS_BY_PRESENCE = ("Age", "X-Consul-Contenthash", "X-Consul-Lastcontact")
CHUNK_BYTES = 64 * 1024
INDEX_OF = re.compile(INDEX_OF_KEY.format("([^>]+)"))
SESSION_NAMED = re.compile(SESSION.format("([^>]+)"))


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """Exact spelling: shell clients grep for it."""
        return next((value for field, value in self.headers if field == name), None)

    def index(self) -> int:
        return int(self.header("X-Consul-Index") or 0)


def exchange(agent: Agent, request: Request) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", agent.ports.http, timeout=request.read_s_max)
    try:
        target = INDEX_OF.sub(lambda found: modify_index(agent, found[1]), request.target)
        target = SESSION_NAMED.sub(lambda found: session_named(agent, found[1]), target)
        connection.putrequest(request.method, target, skip_host=True, skip_accept_encoding=True)
        body = None if request.body is None else with_addresses(request.body, agent)
        for name, value in with_defaults(request, body, agent):
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        return Answer(response.status, tuple(response.getheaders()), read_body(response, request.read_s_max))
    finally:
        connection.close()


def modify_index(agent: Agent, key: str) -> str:
    answer = exchange(agent, get(f"/v1/kv/{key}"))
    return str(json.loads(answer.body)[0]["ModifyIndex"]) if answer.body else "1"


def session_named(agent: Agent, name: str) -> str:
    listed = json.loads(exchange(agent, get("/v1/session/list")).body)
    return str(next(each["ID"] for each in listed if each["Name"] == name))


def with_addresses(body: bytes, agent: Agent) -> bytes:
    """And with the ids of sessions."""
    body = body.replace(OWN_HTTP.encode(), f"127.0.0.1:{agent.ports.http}".encode())
    if SESSION_NAMED.search(body.decode(errors="replace")) is None:
        return body
    return SESSION_NAMED.sub(lambda found: session_named(agent, found[1]), body.decode()).encode()


def with_defaults(request: Request, body: bytes | None, agent: Agent) -> list[tuple[str, str]]:
    headers = list(request.headers)
    given = {name.lower() for name, _ in headers}
    if "host" not in given:
        headers.insert(0, ("Host", f"127.0.0.1:{agent.ports.http}"))
    if body is not None and not given & {"content-length", "transfer-encoding"}:
        headers.append(("Content-Length", str(len(body))))
    return headers


def read_body(response: http.client.HTTPResponse, seconds_max: float) -> bytes:
    """To the end, or for a stream that has none as long as the case says."""
    deadline = time.monotonic() + seconds_max
    body = b""
    try:
        while time.monotonic() < deadline and (chunk := response.read1(CHUNK_BYTES)):
            body += chunk
    except TimeoutError:
        pass
    return body


def answer_facts(answer: Answer, normaliser: Normaliser) -> dict[str, Json]:
    facts: dict[str, Json] = {"status": answer.status, "headers": header_facts(answer, normaliser)}
    body = answer.body
    if answer.header("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    return facts | body_facts(body, answer.header("Content-Type") or "", normaliser)


def header_facts(answer: Answer, normaliser: Normaliser) -> dict[str, Json]:
    facts: dict[str, Json] = {}
    for name in HEADERS_BY_VALUE:
        if (value := answer.header(name)) is not None:
            facts[name] = normaliser.text(value)
    for name in HEADERS_BY_PRESENCE:
        if answer.header(name) is not None:
            facts[name] = PRESENT
    if (index := answer.header("X-Consul-Index")) is not None:
        facts["X-Consul-Index"] = "at least 1" if index.isdigit() and int(index) >= 1 else index
    if not answer.body:
        facts["Content-Length"] = answer.header("Content-Length")
    return facts


def body_facts(body: bytes, content_type: str, normaliser: Normaliser) -> dict[str, Json]:
    text = body.decode(errors="replace")
    if content_type.startswith("application/json"):
        try:
            return {"body": normaliser.json(json.loads(text)), "layout": layout(text)}
        except ValueError:
            return {"body": normaliser.text(text), "layout": "not JSON"}
    return {"body": normaliser.text(text)}


def layout(text: str) -> str:
    """Consul indents by four and adds a newline for ?pretty and in dev mode, and else does neither."""
    end = ", newline at the end" if text.endswith("\n") else ""
    if "\n" not in text.rstrip("\n"):
        return "one line" + end
    return ("indented by four" if "\n    " in text else "indented otherwise") + end
