"""What must be true of an agent after whatever it was sent, and the figures that say how near it was.

Alive: the process runs, HTTP answers, DNS answers for its own node. No fault: no traceback, and no input that
the agent dropped because of a mistake of its own. In time: no pass of its loop took longer than a tenth of a
second of processor time. Flat: memory within a bound of what it was after the first slice, and few log lines.
"""

from __future__ import annotations

import http.client
import re
from dataclasses import dataclass

import dns.exception
import dns.message
import dns.query

from tests.bench.tools import resident_mb
from tests.system.agents import Agent, until

PASS_S_MAX = 0.1  # a bound of the histogram `adsum_event_loop_lag_seconds`
GROWTH_MB_MAX = 40.0  # since the first slice: ten minutes were seen to add 16, where caches fill up
LOG_BYTES_MAX = 64 * 1024  # a slice
ANSWER_S_MAX = 20.0  # the machine may be busy; what an agent itself is busy with, its passes tell
DNS_AGAIN_S = 1.0
FAULTS = ("Traceback (most recent call last)", "a fault of Adsum was met")
FAULT_LINES_SHOWN = 30


class Finding(Exception):
    """Something that must not happen did; the text says what and where."""


@dataclass(slots=True)
class Watched:
    agent: Agent
    name: str
    passes_over: float = 0.0
    longest_s: float = 0.0
    first_mb: float = 0.0
    last_mb: float = 0.0
    log_read: int = 0
    last_dns: str = ""

    @property
    def has_ended(self) -> bool:
        return self.agent.process.poll() is not None

    def begin(self) -> None:
        """What was until now is not judged: code that is loaded at its first use, the start itself."""
        self.passes_over = self._passes_over(self._metrics())
        self.log_read = len(self.agent.log())
        self.settle()

    def settle(self) -> None:
        """Growth counts from here."""
        self.first_mb = self.last_mb = resident_mb(self.agent.pid)

    def look(self) -> None:
        """Raises `Finding`."""
        said = self._said()
        self._check_process(said)
        self._check_log(said)
        try:
            self._check_answers()
            self._check_passes()
            self._check_memory()
        except (OSError, http.client.HTTPException) as error:
            self._check_process(self._said())
            raise Finding(f"{self.name} does not answer: {error!r}") from error

    def _check_memory(self) -> None:
        self.last_mb = resident_mb(self.agent.pid)
        if self.last_mb - self.first_mb > GROWTH_MB_MAX:
            raise Finding(f"{self.name} grew from {self.first_mb:.0f} to {self.last_mb:.0f} MB")

    def _said(self) -> str:
        """In the log, since the last look."""
        whole = self.agent.log()
        said, self.log_read = whole[self.log_read :], len(whole)
        return said

    def _check_process(self, said: str) -> None:
        status = self.agent.process.poll()
        if status is not None:
            raise Finding(f"{self.name} ended with status {status}:\n{said[-3_000:]}")

    def _check_log(self, said: str) -> None:
        for mark in FAULTS:
            at = said.find(mark)
            if at >= 0:
                lines = said[max(0, at - 300) :].splitlines()[:FAULT_LINES_SHOWN]
                raise Finding(f"{self.name} met a fault of its own:\n" + "\n".join(lines))
        if len(said) > LOG_BYTES_MAX:
            raise Finding(f"{self.name} wrote {len(said)} bytes of log, at the end:\n{said[-1_000:]}")

    def _check_answers(self) -> None:
        status, _body = self.agent.call("GET", "/v1/agent/self", timeout_s=ANSWER_S_MAX)
        if status != http.client.OK:
            raise Finding(f"{self.name} answers {status} to /v1/agent/self")
        if not until(self._answers_dns, within_s=ANSWER_S_MAX):
            said = self.last_dns or "nothing"
            raise Finding(f"{self.name} does not answer {self.name}.node.consul over DNS, but says: {said}")

    def _answers_dns(self) -> bool:
        query = dns.message.make_query(f"{self.name}.node.consul", "A")
        try:
            response = dns.query.udp(query, "127.0.0.1", DNS_AGAIN_S, self.agent.ports.dns)
        except dns.exception.Timeout:
            return False
        self.last_dns = str(response)
        return [str(each[0]) for each in response.answer] == ["127.0.0.1"]

    def _check_passes(self) -> None:
        metrics = self._metrics()
        self.longest_s = max(self.longest_s, _value(metrics, "adsum_event_loop_lag_max_seconds"))
        passes = self._passes_over(metrics)
        more, self.passes_over = passes - self.passes_over, passes
        if more:
            raise Finding(
                f"{self.name} held its loop {more:.0f} times for more than {PASS_S_MAX} s of processor time, "
                f"at most {_value(metrics, 'adsum_event_loop_lag_max_seconds'):.3f} s"
            )

    def _passes_over(self, metrics: str) -> float:
        series = "adsum_event_loop_lag_seconds"
        within = _value(metrics, f'{series}_bucket{{le="{PASS_S_MAX}"}}')
        return _value(metrics, f"{series}_count") - within

    def _metrics(self) -> str:
        return self.agent.call("GET", "/metrics", timeout_s=ANSWER_S_MAX)[1].decode()


def _value(metrics: str, series: str) -> float:
    found = re.search(rf"^{re.escape(series)} (\S+)$", metrics, re.MULTILINE)
    if found is None:
        raise Finding(f"there is no metric {series}")
    return float(found[1])
