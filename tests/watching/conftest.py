from __future__ import annotations

import pytest
import trio

from tests.health_checks.support import Bench


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    return Bench(nursery)
