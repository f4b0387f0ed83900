"""What of a definition would travel to every host, and whether the others could take it.

Asked before anything changes: what its owner shows and nobody else does is worse than a refusal. A check
carries the tags of its service, so either of them may make it too large. A problem is a sentence that says
what to shorten; the empty one is none.
"""

from __future__ import annotations

from collections.abc import Iterable

from adsum.catalog import records
from adsum.catalog.definitions import ServiceDefinition, shown
from adsum.catalog.own_services import OwnCheck, OwnService
from adsum.catalog.replication.items import VALUE_BYTES_MAX
from adsum.cbor import BadEncoding

TOO_LARGE = (
    "{} is too large: it would take {} bytes in the catalog that every host holds, of which {} are possible; "
    "shorten {}"
)
BAD_MESH = (
    "proxy and connect of service {} are what no other agent would take: each may have "
    f"{records.MESH_BYTES_MAX} bytes and be {records.MESH_DEPTH_MAX} deep; shorten them"
)


def problem_of(service: OwnService, checks: Iterable[OwnCheck]) -> str:
    """The first one of a service and those checks of it, as both would be."""
    definition = service.definition
    if len(service.encoded) > VALUE_BYTES_MAX:
        named = f"service {shown(definition.service_id)}"
        return _too_large(named, service.encoded, "its tags, meta, or proxy and connect")
    if definition.proxy or definition.connect:
        try:
            records.decode(service.encoded)
        except BadEncoding:
            return BAD_MESH.format(shown(definition.service_id))
    return next(filter(None, (check_problem(check, definition) for check in checks)), "")


def check_problem(check: OwnCheck, service: ServiceDefinition | None) -> str:
    """The service is the one it belongs to, as it would be."""
    if len(check.encoded) <= VALUE_BYTES_MAX:
        return ""
    advice = f"its notes, or the tags of service {shown(service.service_id)}" if service else "its notes"
    return _too_large(f"check {shown(check.definition.check_id)}", check.encoded, advice)


def _too_large(what: str, value: bytes, advice: str) -> str:
    return TOO_LARGE.format(what, len(value), VALUE_BYTES_MAX, advice)
