from __future__ import annotations

import os
from base64 import b64encode

from adsum.cli.command import Command, ParsedCommand

KEY_BYTES = 32  # AES-256


def run(_call: ParsedCommand) -> int:
    print(b64encode(os.urandom(KEY_BYTES)).decode())
    return 0


COMMAND = Command(run)
