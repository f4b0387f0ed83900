"""docs/http.md, held against a running agent."""

from __future__ import annotations

import http.client
import re
from pathlib import Path

from tests.system.agents import Agent, adsum_program, running

# `GET /v1/agent/self`, `/members`: a path without a method continues the row's last one.
FIRST_CELL = re.compile(r"^\| (`(?:GET|PUT) .+?`) \|", re.MULTILINE)
MENTION = re.compile(r"`(?:(GET|PUT) )?(/[^`?]*)(?:\?[^`]*)?`")


def requests_on(page: str) -> list[tuple[str, str]]:
    found = []
    for cell in FIRST_CELL.findall(page):
        method, first = "", ""
        for named, path in MENTION.findall(cell):
            method, is_whole = named or method, path.startswith(("/v1/", "/metrics"))
            first = path if is_whole else first
            found.append((method, path if is_whole else sibling(first, path)))
    return found


def sibling(path: str, last: str) -> str:
    """`/v1/agent/check/pass/<id>` and `/warn/<id>` give `/v1/agent/check/warn/<id>`."""
    parts = path.split("/")
    return "/".join(parts[: len(parts) - last.count("/")]) + last


def test_siblings_replace_as_many_parts_as_they_have() -> None:
    assert sibling("/v1/agent/self", "/host") == "/v1/agent/host"
    assert sibling("/v1/agent/check/pass/<id>", "/warn/<id>") == "/v1/agent/check/warn/<id>"


def test_every_request_on_the_page_is_served(root: Path) -> None:
    wanted = requests_on((root / "docs/http.md").read_text())
    assert len(wanted) > 30
    with running(adsum_program()) as agent:
        asked = {(method, path): allowed(agent, path) for method, path in wanted}
    assert [(method, path) for (method, path), methods in asked.items() if method not in methods] == []


def allowed(agent: Agent, path: str) -> set[str]:
    """OPTIONS costs nothing and tells which methods a path takes."""
    connection = http.client.HTTPConnection("127.0.0.1", agent.ports.http, timeout=10)
    connection.request("OPTIONS", re.sub(r"<\w+>", "x", path))
    allow = connection.getresponse().headers.get("Allow", "")
    connection.close()
    return set(allow.split(","))
