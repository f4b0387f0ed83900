from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version


def run(arguments: Sequence[str]) -> int:
    del arguments
    from adsum.api.version import CONSUL_API_VERSION

    print(f"Adsum v{version('adsum')}\nSpeaks the API of Consul {CONSUL_API_VERSION}")
    return 0
