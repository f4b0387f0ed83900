"""What /v1/agent/host says of the machine, read from where Linux keeps it; names are Consul's.

What this host does not tell (a container without /proc, another system) is left out, and why is in `Errors`.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

KIBIBYTE = 1024


def describe_host(data_dir: str) -> dict[str, object]:
    """Reads files of the kernel: quick, but not for the event loop."""
    errors: list[str] = []

    def tried(read: Callable[[], object]) -> object:
        try:
            return read()
        except (OSError, ValueError, LookupError) as problem:
            errors.append(str(problem))
            return None

    return {
        "Memory": tried(_memory),
        "CPU": tried(_processors),
        "Host": tried(_system),
        "Disk": tried(lambda: _disk(data_dir or "/")),
        "CollectionTime": time.time_ns(),
        "Errors": errors or None,
    }


def _memory() -> dict[str, object]:
    sizes = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        sizes[name] = int(rest.split()[0]) * (KIBIBYTE if rest.endswith("kB") else 1)
    total, free = sizes["MemTotal"], sizes["MemFree"]
    used = total - free - sizes["Buffers"] - sizes["Cached"]
    return {
        "total": total,
        "available": sizes["MemAvailable"],
        "used": used,
        "usedPercent": used * 100 / total,
        "free": free,
        "buffers": sizes["Buffers"],
        "cached": sizes["Cached"],
        "swaptotal": sizes["SwapTotal"],
        "swapfree": sizes["SwapFree"],
    }


def _processors() -> list[dict[str, object]]:
    facts = []
    for block in Path("/proc/cpuinfo").read_text().split("\n\n"):
        lines = (line.partition(":") for line in block.splitlines() if ":" in line)
        facts.append({name.strip(): value.strip() for name, _, value in lines})
    return [
        {
            "cpu": int(fact["processor"]),
            "vendorId": fact.get("vendor_id", ""),
            "family": fact.get("cpu family", ""),
            "model": fact.get("model", ""),
            "modelName": fact.get("model name", ""),
            "cores": 1,
            "mhz": float(fact.get("cpu MHz", 0)),
        }
        for fact in facts
        if "processor" in fact
    ]


def _system() -> dict[str, object]:
    uptime_s = int(float(Path("/proc/uptime").read_text().split()[0]))
    return {
        "hostname": platform.node(),
        "uptime": uptime_s,
        "bootTime": int(time.time()) - uptime_s,
        "procs": sum(each.name.isdecimal() for each in Path("/proc").iterdir()),
        "os": platform.system().lower(),
        "kernelVersion": platform.release(),
        "kernelArch": platform.machine(),
    }


def _disk(path: str) -> dict[str, object]:
    found = os.statvfs(path)
    total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    used = total - found.f_bfree * found.f_frsize
    return {
        "path": path,
        "total": total,
        "free": free,
        "used": used,
        "usedPercent": used * 100 / (used + free) if used + free else 0.0,
        "inodesTotal": found.f_files,
        "inodesFree": found.f_ffree,
    }
