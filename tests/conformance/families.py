"""Every family of cases, in the order they run. A new family is a module in cases/ and a line here."""

from __future__ import annotations

from tests.conformance.case import Family
from tests.conformance.cases import (
    agent_checks,
    agent_itself,
    agent_services,
    blocking,
    catalog,
    checks_running,
    cluster,
    dns_answers,
    dns_settings,
    filters,
    health,
    input_rules,
    kv,
    kv_cluster,
    methods,
    roll,
    sessions,
    status,
    transactions,
)


def families() -> tuple[Family, ...]:
    return (
        agent_services.FAMILY,
        agent_checks.FAMILY,
        checks_running.FAMILY,
        agent_itself.FAMILY,
        catalog.FAMILY,
        health.FAMILY,
        status.FAMILY,
        roll.FAMILY,
        filters.FAMILY,
        input_rules.FAMILY,
        methods.FAMILY,
        blocking.FAMILY,
        kv.FAMILY,
        kv.WAITING,
        sessions.FAMILY,
        sessions.LOCKS,
        sessions.WAITING,
        transactions.FAMILY,
        transactions.EXTERNAL,
        dns_answers.FAMILY,
        dns_settings.FAMILY,
        roll.IN_CLUSTER,
        *cluster.FAMILIES,
        *kv_cluster.FAMILIES,
    )
