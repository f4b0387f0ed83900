from __future__ import annotations

import pytest

from adsum.dns.settings import DnsSettings
from tests.dns.support import Ask, Catalog, asker, standard_catalog


@pytest.fixture
def catalog() -> Catalog:
    return standard_catalog()


@pytest.fixture
def ask(catalog: Catalog) -> Ask:
    return asker(catalog.view, DnsSettings())
