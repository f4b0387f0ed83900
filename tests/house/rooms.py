"""Which modules are cores, and how files and modules map onto each other."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMPORT_ROOTS = [ROOT / "agent", ROOT / "dns", ROOT / "health_checks"]

CORES = [
    "agent/adsum/[!_]*.py",  # the words all rooms share
    "agent/adsum/agent/core.py",
    "agent/adsum/agent/registry.py",
    "agent/adsum/agent/line.py",
    "agent/adsum/agent/effects.py",
    "agent/adsum/agent/commands.py",
    "agent/adsum/agent/settings.py",
    "agent/adsum/agent/roll.py",
    "agent/adsum/agent/absence.py",
    "agent/adsum/agent/presence.py",
    "agent/adsum/agent/mirror.py",
    "agent/adsum/agent/sharing.py",
    "agent/adsum/agent/warm.py",
    "agent/adsum/agent/tags.py",
    "agent/adsum/agent/user_events.py",
    "agent/adsum/agent/conflicts.py",
    "agent/adsum/agent/known_servers.py",
    "agent/adsum/catalog/**/*.py",
    "agent/adsum/gossip/**/*.py",
    "agent/adsum/raft/**/*.py",
    "agent/adsum/store/**/*.py",
    "dns/adsum/dns/names.py",
    "dns/adsum/dns/wire.py",
    "dns/adsum/dns/reader.py",
    "dns/adsum/dns/message.py",
    "dns/adsum/dns/generations.py",
    "dns/adsum/dns/limits.py",
    "dns/adsum/dns/zone.py",
    "dns/adsum/dns/answers.py",
    "dns/adsum/dns/settings.py",
    "dns/adsum/dns/explain.py",
]


def core_files() -> list[Path]:
    """Rooms that are not built yet have no files, and join by themselves when they do."""
    return sorted({path for pattern in CORES for path in ROOT.glob(pattern)})


def module_name(path: Path) -> str:
    root = next(root for root in IMPORT_ROOTS if path.is_relative_to(root))
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
