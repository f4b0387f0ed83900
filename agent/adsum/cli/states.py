"""How a service is, told from its checks: the worst of them, and maintenance above all."""

from __future__ import annotations

from collections.abc import Iterable

NODE_MAINTENANCE = "_node_maintenance"
SERVICE_MAINTENANCE = "_service_maintenance:"
WORST_FIRST = ("critical", "warning", "passing")


def state_of(checks: Iterable[dict[str, str]]) -> str:
    statuses = set()
    for check in checks:
        if is_maintenance(check["CheckID"]):
            return "maintenance"
        statuses.add(check["Status"])
    return next((status for status in WORST_FIRST if status in statuses), "passing")


def is_maintenance(check_id: str) -> bool:
    return check_id == NODE_MAINTENANCE or check_id.startswith(SERVICE_MAINTENANCE)


def place(address: str, port: int) -> str:
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{port}" if port else host
