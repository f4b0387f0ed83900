from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from adsum.config.config import Telemetry
from adsum.observe import process
from adsum.observe.exposition import Exposition
from tests.files import no_file_left
from tests.observe.readings import samples, sources


def test_figures_are_told_while_no_file_is_left() -> None:
    exposition = Exposition(sources(), Telemetry())
    before = set(samples(exposition))
    with no_file_left():
        exposition.end_interval()
        shown = samples(exposition)
    assert set(shown) == before
    assert shown["process_resident_memory_bytes", ()].value > 1_000_000
    assert shown["process_max_fds", ()].value == 0


def test_open_files_are_counted_as_the_kernel_lists_them() -> None:
    exposition = Exposition(sources(), Telemetry())
    before = samples(exposition)["process_open_fds", ()].value
    assert before == len(os.listdir("/proc/self/fd")) - 1
    with open(os.devnull), open(os.devnull):
        assert samples(exposition)["process_open_fds", ()].value == before + 2


def test_open_files_are_counted_one_by_one_where_the_kernel_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fstat", lambda _file: SimpleNamespace(st_size=0))
    assert process.open_files(None) == len(os.listdir("/proc/self/fd")) - 1
    with no_file_left():
        assert process.open_files(None) == 0  # as many as there may be


def test_figures_of_the_process_are_those_of_prometheus_s_own_client() -> None:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    theirs = {
        sample.name: sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }
    ours = samples(Exposition(sources(), Telemetry()))
    for name, value in theirs.items():
        assert ours[name, ()].value == pytest.approx(value, rel=0.1), name
