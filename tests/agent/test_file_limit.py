from __future__ import annotations

import resource

import pytest

from adsum.agent.file_limit import http_connections_max


@pytest.mark.parametrize(
    ("files", "connections"), [(65_536, 62_848), (20_000, 17_312), (4_096, 2_048), (1_024, 512)]
)
def test_http_clients_can_never_take_all_files(
    monkeypatch: pytest.MonkeyPatch, files: int, connections: int
) -> None:
    """Idle connections up to the limit used to stop the agent at its next write."""
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (files, files))
    assert http_connections_max() == connections
