"""Which Consul we are to our clients, and which Adsum to our operators."""

from __future__ import annotations

# Clients switch features on by it, so it names the level whose shapes we speak (contract, opening page).
CONSUL_API_VERSION = "1.8.7"


def own_version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # 15 ms that the start need not wait for

    try:
        return version("adsum")
    except PackageNotFoundError:  # run from a tree that was never installed
        return "0.0.0"
