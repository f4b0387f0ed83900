"""What can go wrong between two agents. All of it is normal in a cluster; each class says what is known."""

from __future__ import annotations


class NetError(Exception):
    """Nothing here is a bug of ours; whoever asked decides what it means."""


class PeerRefused(NetError):
    """The host answered, and nobody listens there: ECONNREFUSED on connect, and no other code.

    A paused or overloaded process never causes this, so it is evidence that the process is gone.
    """


class PeerUnreachable(NetError):
    """No connection, for any other reason or in time. The host of a paused process would take it."""


class Untried(NetError):
    """Our own system gave us no socket for it. It says nothing about the peer."""


class TimedOut(NetError):
    """The peer was too slow in the step that the message names."""


class Lost(NetError):
    """The connection ended where more was to come."""


class TurnedAway(NetError):
    """The peer said why it does not talk to us. It lives."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unwelcome(NetError):
    """We turned the peer away, and told it why."""


class BadPeer(NetError):
    """What the peer sent is not what we speak, or not sealed with our key. The connection is over."""


class NoRoomForPeer(NetError):
    """We hold as much as we may of what was sent and has not come whole. The connection is over."""
