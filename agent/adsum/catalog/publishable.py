"""What of a definition would travel to every host, and whether the others could take it.

Asked before anything changes: what its owner shows and nobody else does is worse than a refusal. A check
carries the tags of its service, so either of them may make it too large. A problem is a sentence that says
what to shorten; the empty one is none.
"""

from __future__ import annotations

from collections.abc import Iterable

from adsum.catalog import records
from adsum.catalog.definitions import CheckDefinition, ServiceDefinition
from adsum.catalog.own_services import encoded_check, published_service
from adsum.catalog.replication.items import VALUE_BYTES_MAX
from adsum.cbor import BadEncoding

SHOWN_CHARACTERS_MAX = 80

TOO_LARGE = (
    "{} is too large: it would take {} bytes in the catalog that every host holds, of which {} are possible; "
    "shorten {}"
)
BAD_MESH = (
    "proxy and connect of service {} are what no other agent would take: each may have "
    f"{records.MESH_BYTES_MAX} bytes and be {records.MESH_DEPTH_MAX} deep; shorten them"
)


def service_problem(service: ServiceDefinition) -> str:
    shown = _shown(service.service_id)
    value = records.encode_service(published_service(service))
    if len(value) > VALUE_BYTES_MAX:
        return _too_large(f"service {shown}", value, "its tags, meta, or proxy and connect")
    if service.proxy or service.connect:
        try:
            records.decode(value)
        except BadEncoding:
            return BAD_MESH.format(shown)
    return ""


def check_problem(check: CheckDefinition, service: ServiceDefinition | None) -> str:
    """The service is the one it belongs to, as it would be."""
    value = encoded_check(check, service)
    if len(value) <= VALUE_BYTES_MAX:
        return ""
    advice = f"its notes, or the tags of service {_shown(service.service_id)}" if service else "its notes"
    return _too_large(f"check {_shown(check.check_id)}", value, advice)


def problem_of(service: ServiceDefinition, checks: Iterable[CheckDefinition]) -> str:
    """The first one of a service and those checks of it."""
    problem = service_problem(service)
    return problem or next(filter(None, (check_problem(check, service) for check in checks)), "")


def _too_large(what: str, value: bytes, advice: str) -> str:
    return TOO_LARGE.format(what, len(value), VALUE_BYTES_MAX, advice)


def _shown(item_id: str) -> str:
    return f'"{item_id}"' if len(item_id) <= SHOWN_CHARACTERS_MAX else f'"{item_id[:SHOWN_CHARACTERS_MAX]}…"'
