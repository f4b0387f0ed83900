"""What rows of the catalog look like as JSON, where it depends on what others sent."""

from __future__ import annotations

import pytest

from adsum.api.shapes import check_fragment
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check
from adsum.catalog.view import Row


@pytest.mark.parametrize(
    ("definition", "shown"),
    [
        ("", b'"Definition":{}'),
        ('{"HTTP":"http://10.1.0.1/","Interval":"10s"}', b'"Definition":{"HTTP":"http://10.1.0.1/","Interval":"10s"}'),
        ("[1]", b'"Definition":{}'),
        ('{"HTTP":', b'"Definition":{}'),
    ],
)  # fmt: skip
def test_how_a_check_without_an_agent_is_to_be_run_is_shown_if_it_is_an_object(
    definition: str, shown: bytes
) -> None:
    check = Check(check_id="up", name="up", status=CheckStatus.PASSING, node="ext", definition=definition)
    assert shown in check_fragment(Row(check, 1, 1), "ext")
