from tests.dns.conftest import catalog

__all__ = ["catalog"]
