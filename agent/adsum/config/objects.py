"""Services and checks that files define.

The decoder is the HTTP API's. Files differ in two ways: an unknown key is refused here, because only its
author can mend it, and HCL says blocks where JSON has objects, so that every object may come as a list of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from adsum.catalog.decode import WrongType, decode_check, decode_service
from adsum.catalog.definitions import BadDefinition, CheckDefinition, CheckKind, ServiceDefinition
from adsum.catalog.own_services import DefinedBy, OwnCheck, OwnService
from adsum.catalog.publishable import check_problem, problem_of
from adsum.catalog.spelling import canonical_key
from adsum.catalog.tagged import with_family_addresses
from adsum.catalog.validate import validate_check, validate_service
from adsum.config.keys import did_you_mean, nearest
from adsum.config.merge import Placed
from adsum.config.table import CHECK_KEYS, SERVICE_KEYS
from adsum.config.values import Values

WEIGHT_KEYS = ["passing", "warning"]
ADDRESS_KEYS = ["address", "port"]

# Go's names of types, as the decoder's errors carry them, in words for an operator
WANTED = {"string": "a text", "int": "a whole number", "bool": "true or false"}
FOUND = {
    "string": "a text",
    "number": "a number",
    "bool": "a truth value",
    "object": "an object",
    "array": "a list",
}

T = TypeVar("T", ServiceDefinition, CheckDefinition)


def read_definitions(
    values: Values, *, output_bytes_max: int
) -> tuple[tuple[ServiceDefinition, ...], tuple[CheckDefinition, ...], list[str]]:
    """Services, checks, and warnings."""
    reader = _Reader(values, output_bytes_max)
    services = reader.read("services", reader.service, validate_service)
    checks = reader.read("checks", reader.check, validate_check)
    reader.refuse_unpublishable(services, checks)
    return (
        tuple(reader.without_repeats("service", services, lambda service: service.service_id)),
        tuple(reader.without_repeats("check", checks, lambda check: check.check_id)),
        reader.warnings,
    )


class _Reader:
    def __init__(self, values: Values, output_bytes_max: int) -> None:
        self.warnings: list[str] = []
        self._values = values
        self._output_bytes_max = output_bytes_max
        self._scripts_run = values.boolean("enable_script_checks") or values.boolean(
            "enable_local_script_checks"
        )

    def read(
        self, name: str, decode: Callable[[Placed], T], validate: Callable[[T], list[str]]
    ) -> list[tuple[T, str]]:
        definitions = []
        for placed in self._values.given(name):
            try:
                definition = decode(placed)
                self.warnings += [f"{placed.place}: {warning}" for warning in validate(definition)]
                definitions.append((definition, placed.place))
            except BadDefinition as problem:
                self._values.refuse_at(placed.place, _sentence(problem))
        return definitions

    def service(self, placed: Placed) -> ServiceDefinition:
        raw = self._service_object(placed)
        definition = decode_service(raw, output_bytes_max=self._output_bytes_max)
        for check in definition.checks:
            self._refuse_script(check, placed.place)
        return definition

    def check(self, placed: Placed) -> CheckDefinition:
        raw = self._check_object(placed.value, placed.place)
        definition = decode_check(raw, output_bytes_max=self._output_bytes_max)
        self._refuse_script(definition, placed.place)
        return definition

    def refuse_unpublishable(
        self, services: list[tuple[ServiceDefinition, str]], checks: list[tuple[CheckDefinition, str]]
    ) -> None:
        by_id = {service.service_id: service for service, _ in services}
        for service, place in services:
            own = OwnService(with_family_addresses(service), DefinedBy.CONFIGURATION)
            own_checks = [OwnCheck(each, own.source, own.definition) for each in service.checks]
            self._refuse(problem_of(own, own_checks), place)
        for check, place in checks:
            owner = by_id.get(check.service_id)
            self._refuse(check_problem(OwnCheck(check, DefinedBy.CONFIGURATION, owner), owner), place)

    def _refuse(self, problem: str, place: str) -> None:
        if problem:
            self._values.refuse_at(place, problem)

    def without_repeats(
        self, what: str, definitions: list[tuple[T, str]], id_of: Callable[[T], str]
    ) -> Iterable[T]:
        """Consul registers one after the other, so that the last one stays; here that is said."""
        by_id: dict[str, tuple[T, str]] = {}
        for definition, place in definitions:
            if earlier := by_id.get(id_of(definition)):
                self.warnings.append(
                    f'{place}: {what} "{id_of(definition)}" replaces the one at {earlier[1]}'
                )
            by_id[id_of(definition)] = (definition, place)
        return [definition for definition, _ in by_id.values()]

    def _service_object(self, placed: Placed) -> dict[str, object]:
        raw = self._known(placed.value, SERVICE_KEYS.split(), placed.place)
        raw["checks"] = self._service_checks(raw, placed.place)
        raw.pop("check", None)
        for key in ("meta", "proxy", "connect"):
            raw[key] = _as_object(raw.get(key))
        raw["weights"] = self._known_or_other(raw.get("weights"), WEIGHT_KEYS, f"{placed.place}.weights")
        raw["taggedaddresses"] = self._tagged(raw.get("taggedaddresses"), f"{placed.place}.tagged_addresses")
        return raw

    def _service_checks(self, raw: Mapping[str, object], place: str) -> list[object]:
        """Each is tried on its own, so that the fault of one neither hides nor names another."""
        checks = []
        for key in ("check", "checks"):
            given = raw.get(key)
            is_list = isinstance(given, list | tuple)
            listed = given if isinstance(given, list | tuple) else [] if given is None else [given]
            for n, value in enumerate(listed):
                check_place = f"{place}.{key}[{n}]" if is_list else f"{place}.{key}"
                check = self._check_object(value, check_place)
                try:
                    decode_check(check)
                    checks.append(check)
                except BadDefinition as problem:
                    self._values.refuse_at(check_place, _sentence(problem))
        return checks

    def _check_object(self, value: object, place: str) -> object:
        raw = self._known_or_other(value, CHECK_KEYS.split(), place)
        if isinstance(raw, dict) and "header" in raw:
            raw["header"] = _as_object(raw["header"])
        return raw

    def _tagged(self, value: object, place: str) -> object:
        addresses = _as_object(value)
        if not isinstance(addresses, Mapping):
            return addresses
        return {
            name: self._known_or_other(each, ADDRESS_KEYS, f"{place}.{name}")
            for name, each in addresses.items()
        }

    def _known_or_other(self, value: object, known: list[str], place: str) -> object:
        """What is no object is left for the decoder to refuse."""
        raw = _as_object(value)
        return self._known(raw, known, place) if isinstance(raw, Mapping) else raw

    def _known(self, value: object, known: list[str], place: str) -> dict[str, object]:
        assert isinstance(value, Mapping)
        names = {canonical_key(name): name for name in known}
        raw: dict[str, object] = {}
        for key, inner in value.items():
            name = canonical_key(str(key))
            if name in names:
                raw[name] = inner
            else:
                near = nearest(name, names)
                sentence = "is no key we know" + did_you_mean(names[near] if near else None)
                self._values.refuse_at(f"{place}.{key}", sentence)
        return raw

    def _refuse_script(self, check: CheckDefinition, place: str) -> None:
        if check.kind in {CheckKind.SCRIPT, CheckKind.DOCKER} and not self._scripts_run:
            sentence = f'check "{check.check_id}" runs a command: enable_local_script_checks would allow that'
            self._values.refuse_at(place, sentence)


def _as_object(value: object) -> object:
    if isinstance(value, list | tuple) and all(isinstance(each, Mapping) for each in value):
        return {key: inner for each in value for key, inner in each.items()} if value else None
    return value


def _sentence(problem: BadDefinition) -> str:
    if isinstance(problem, WrongType):
        wanted = WANTED.get(problem.wanted, "a list" if problem.wanted.startswith("[]") else "an object")
        sentence = f"must be {wanted}, not {FOUND.get(problem.found, problem.found)}"
        return f"{problem.field} {sentence}" if problem.field else sentence
    return str(problem).removeprefix("Request decode failed: ")
