"""HCL files, through python-hcl2, which is the `hcl` extra.

Consul's files are HCL version 1, the library reads version 2: what people write in them is the same in
both. The library leaves strings in quotes, so that an expression can be told from a string. Expressions are
refused, since nothing here evaluates them; "${…}" within a string stays as it is, as in Consul.
"""

from __future__ import annotations

import json
import re

from adsum.agent.config.sources import Unreadable

ESCAPE = re.compile(r'\\(["\\nrt]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})')
ESCAPED = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


def read(text: str) -> object:
    try:
        import hcl2
        from lark.exceptions import LarkError, UnexpectedInput
    except ImportError:
        raise Unreadable(
            "HCL needs the extra: pip install 'adsum[hcl]', or write it as JSON or TOML"
        ) from None
    options = hcl2.SerializationOptions(with_comments=False, explicit_blocks=False, preserve_heredocs=False)
    try:
        return _plain(hcl2.loads(text + "\n", serialization_options=options))
    except UnexpectedInput as problem:
        raise Unreadable(f"is not HCL at line {problem.line} column {problem.column}") from None
    except (LarkError, ValueError) as problem:
        raise Unreadable(f"is not HCL: {problem}") from None


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {_key(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, str):
        return _text(value)
    return value


def _key(key: str) -> str:
    return _text(key) if key.startswith('"') else key


def _text(value: str) -> str:
    if len(value) < 2 or not (value.startswith('"') and value.endswith('"')):
        raise Unreadable(f"{json.dumps(value)} is an expression: only plain values are read")
    return ESCAPE.sub(lambda match: _unescape(match.group(1)), value[1:-1])


def _unescape(code: str) -> str:
    if code[0] not in "uU":
        return ESCAPED[code]
    point = int(code[1:], 16)
    if point > 0x10FFFF:
        raise Unreadable(f"\\{code} is no character")
    return chr(point)
