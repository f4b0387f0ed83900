"""What is wrong with a `filter=`, apart from the code that reads one: who catches it need not load that."""

from __future__ import annotations

PREFIX = "Failed to create boolean expression evaluator: "


class BadFilter(ValueError):
    """The caller's expression cannot be used; the message is the answer's body, in Consul's words."""

    def __init__(self, sentence: str) -> None:
        super().__init__(PREFIX + sentence)


class TooCostly(BadFilter):
    """It can be read, but not be applied to so much for what it may cost."""
