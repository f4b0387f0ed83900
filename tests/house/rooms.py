"""Which modules are cores, and how files and modules map onto each other."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMPORT_ROOTS = [ROOT / "agent", ROOT / "dns", ROOT / "health_checks"]

# Each is a core as a whole: no I/O, no clock, no thread, no random source of its own.
CORES = [
    "agent/adsum/[!_]*.py",  # the words all rooms share
    "agent/adsum/agent/**/*.py",
    "agent/adsum/catalog/**/*.py",
    "agent/adsum/consensus/**/*.py",
    "agent/adsum/gossip/**/*.py",
    "agent/adsum/raft/**/*.py",
    "agent/adsum/sessions/**/*.py",
    "agent/adsum/store/**/*.py",
    "dns/adsum/dns/**/*.py",
]


def core_files() -> list[Path]:
    """Rooms that are not built yet have no files, and join by themselves when they do."""
    return sorted({path for pattern in CORES for path in ROOT.glob(pattern)})


def module_name(path: Path) -> str:
    root = next(root for root in IMPORT_ROOTS if path.is_relative_to(root))
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
