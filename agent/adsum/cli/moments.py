from __future__ import annotations

from datetime import datetime


def local_time(rfc3339: str) -> str:
    """As this terminal's people count, to the millisecond: accusations come close together."""
    return datetime.fromisoformat(rfc3339).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
