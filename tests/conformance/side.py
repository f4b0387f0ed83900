"""One side of a comparison, an agent or a small cluster: puts it into the state a case starts from, asks one
agent, and gives back facts.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Sequence
from urllib.parse import quote

import dns.exception

from tests.conformance.case import Ask, Case, Json, Kill, Question, Request, Setting, Watch, put
from tests.conformance.dns_facts import question_facts
from tests.conformance.http_facts import answer_facts, exchange
from tests.conformance.normalise import Normaliser
from tests.conformance.watch_facts import watch_facts
from tests.system.agents import Agent, AgentFailed, until

SETTLE_S_MAX = 4.0
CLUSTER_SETTLE_S_MAX = 15.0
UNTIL_S_MAX = 6.0
# Consul needs some seconds to call an agent dead, and a minute when its leader missed that one left.
CLUSTER_UNTIL_S_MAX = 90.0
UNTIL_POLL_S = 0.05
READ_METHODS = {"GET", "HEAD", "OPTIONS"}
BROKEN = (OSError, http.client.HTTPException, dns.exception.DNSException, AgentFailed)


class Side:
    def __init__(self, agents: Sequence[Agent], setting: Setting) -> None:
        """The first is asked."""
        self.agents = agents
        self.agent = agents[0]
        self.setting = setting
        self.normaliser = Normaliser(agents[0], agents[1:])

    def prepare(self, given: tuple[Request, ...]) -> list[Json]:
        """An empty agent that was then told `given`; returns what each of those requests was answered."""
        if self.setting.open:
            self.clean()
            self.settle()
        statuses: list[Json] = [exchange(self.agents[each.at], each).status for each in given]
        if self.setting.open:
            self.settle()
        return statuses

    def clean(self) -> None:
        for session in self.agent.get_json("/v1/session/list"):
            exchange(self.agent, put(f"/v1/session/destroy/{session['ID']}"))
        for agent in self.agents:
            for service in agent.get_json("/v1/agent/services"):
                exchange(agent, put(f"/v1/agent/service/deregister/{quote(service, safe='')}"))
            exchange(agent, put("/v1/agent/maintenance?enable=false"))
            for check in agent.get_json("/v1/agent/checks"):
                exchange(agent, put(f"/v1/agent/check/deregister/{quote(check, safe='')}"))

    def ask(self, case: Case) -> list[dict[str, Json]]:
        settle = self.setting.open and not (case.ends_agent or case.breaks_cluster)
        answers = [self.facts(each, settle=settle) for each in case.ask]
        if case.ends_agent:
            answers.append({"exit code": self.agent.wait_for_end()})
        return answers

    def facts(self, ask: Ask, *, settle: bool) -> dict[str, Json]:
        try:
            try:
                facts = self.asked(ask)
            except ConnectionResetError:  # refused unread: the end of the connection may overtake the answer
                facts = self.asked(ask)
            if settle and writes(ask):
                facts["catalog follows"] = self.settle()
            return facts
        except BROKEN as failure:
            return {"failed": self.normaliser.text(f"{type(failure).__name__}: {failure}")}

    def asked(self, ask: Ask) -> dict[str, Json]:
        match ask:
            case Kill():
                self.agents[ask.at].kill()
                return {}
            case Request():
                return self.request_facts(ask)
            case Question():
                return question_facts(self.agent, ask, self.normaliser)
            case Watch():
                return watch_facts(self.agents, ask, self.normaliser)

    def request_facts(self, request: Request) -> dict[str, Json]:
        """Of the first answer that has what the request waits for, or of the last."""
        wanted = request.until.encode()
        deadline = time.monotonic() + (CLUSTER_UNTIL_S_MAX if self.setting.others else UNTIL_S_MAX)
        agent = self.agents[request.at]
        while wanted not in (answer := exchange(agent, request)).body and time.monotonic() < deadline:
            time.sleep(UNTIL_POLL_S)
        return answer_facts(answer, self.normaliser)

    def settle(self) -> bool:
        """Consul copies an agent's state to its catalog a moment after it answers; wait for that."""
        patience_s = CLUSTER_SETTLE_S_MAX if self.setting.others else SETTLE_S_MAX
        return until(lambda: all(self.follows(each) for each in self.agents), within_s=patience_s)

    def follows(self, owner: Agent) -> bool:
        """The agent that is asked shows what the owner has."""
        name = owner.config.get("node_name", "n1")
        node = self.agent.get_json(f"/v1/catalog/node/{name}")
        if node is None or node["Node"]["TaggedAddresses"] is None:
            return False
        catalog = {name: each for name, each in node["Services"].items() if name != "consul"}
        health = {each["CheckID"]: each["Status"] for each in self.agent.get_json(f"/v1/health/node/{name}")}
        health.pop("serfHealth", None)
        checks = {name: each["Status"] for name, each in owner.get_json("/v1/agent/checks").items()}
        return health == checks and essentials(catalog) == essentials(owner.get_json("/v1/agent/services"))


def essentials(services: dict[str, dict[str, Json]]) -> Json:
    keys = ("Service", "Port", "Address", "Tags", "Weights")
    return {name: [each[key] for key in keys] for name, each in services.items()}


def writes(ask: Ask) -> bool:
    match ask:
        case Request():
            return ask.method not in READ_METHODS
        case Question() | Kill():
            return False
        case Watch():
            return bool(ask.change)
