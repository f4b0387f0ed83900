"""A log that is started and stopped."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from adsum.logs import setup
from adsum.logs.settings import LogSettings
from adsum.logs.stream import LogStream

log = logging.getLogger("agent")


@contextmanager
def logging_to(settings: LogSettings) -> Iterator[LogStream]:
    stream = setup.start(settings)
    try:
        yield stream
    finally:
        root = logging.getLogger()
        for handler in (*stream.writers, stream):
            root.removeHandler(handler)
            handler.close()
        root.setLevel(logging.WARNING)
