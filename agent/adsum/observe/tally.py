"""The catalog in numbers. Counting walks all of it: at most once for each state the catalog is in."""

from __future__ import annotations

from adsum.catalog.definitions import CheckStatus
from adsum.catalog.view import View, worst_status
from adsum.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Numbers:
    nodes: int
    services: int
    instances: dict[str, int]  # by status
    checks: dict[str, int]


class CatalogTally:
    def __init__(self, view: View) -> None:
        self._view = view
        self._index = -1
        self._numbers = Numbers(0, 0, {}, {})

    def count(self) -> Numbers:
        if self._index == self._view.index:
            return self._numbers
        instances = {str(status): 0 for status in CheckStatus}
        checks = {str(status): 0 for status in CheckStatus}
        nodes = 0
        for host in self._view.nodes():
            nodes += 1
            of_node = worst_status(row.value.status for row in host.node_checks)
            for instance in host.instances:
                instances[worst_status((of_node, *(row.value.status for row in instance.checks)))] += 1
            for row in host.checks:
                checks[row.value.status] += 1
        self._numbers = Numbers(nodes, len(self._view.service_names()), instances, checks)
        self._index = self._view.index
        return self._numbers
