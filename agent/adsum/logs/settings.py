"""What the log writes, and where to."""

from __future__ import annotations

from adsum.frozen import dataclass
from adsum.now import HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    level: str = "INFO"  # TRACE, DEBUG, INFO, WARN or ERROR
    is_json: bool = False
    file: str = ""
    rotate_duration_ns: int = 24 * HOUR
    rotate_bytes: int = 0
    rotate_max_files: int = 0
    has_syslog: bool = False
    syslog_facility: str = "LOCAL0"
