"""The data folder, held by one process at a time: two agents would each undo what the other wrote.

Two locks, for each is missing somewhere: on the folder itself, which needs no room and holds on a disk that
is mounted read-only, but not on every network file system; and on a file in it, as older agents have it.

A folder that was deleted, emptied or moved away under the agent shows by its lock, which is not there any
more. It is then made anew and locked again, before another agent takes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from adsum.process.sockets import CannotStart
from adsum.storage.failures import StorageFailed

LOCK = "lock"
# What a file system answers that has no locks for folders.
NO_SUCH_LOCK = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
TAKEN = "{} was deleted, and another agent has begun a new one there; give each a data_dir of its own"


class InUse(CannotStart):
    pass


class DataFolder:
    def __init__(self, path: str) -> None:
        """Raises `CannotStart`."""
        self.path = Path(path)
        self._held: list[tuple[Path, int]] = []  # what is locked, and its descriptor
        self._take()

    def renew(self) -> bool:
        """Whether the folder was gone, and is there again now and held. One that cannot be made stays gone:
        what is to be written there is refused meanwhile. Raises `StorageFailed` when another agent has it."""
        if self._held and not any(_is_another(path, descriptor) for path, descriptor in self._held):
            return False
        self.close()
        try:
            self._take()
        except InUse:
            raise StorageFailed(TAKEN.format(self.path)) from None
        except CannotStart:
            return False
        return True

    def close(self) -> None:
        for _path, descriptor in self._held:
            os.close(descriptor)
        self._held.clear()

    def _take(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._hold(self.path, os.open(self.path, os.O_RDONLY | os.O_DIRECTORY))
            lock = self.path / LOCK
            if (descriptor := _opened(lock)) is not None:
                self._hold(lock, descriptor)
        except BlockingIOError:
            self.close()
            raise InUse(f"the data folder {self.path} is in use by another agent") from None
        except OSError as problem:
            self.close()
            raise CannotStart(f"the data folder {self.path} cannot be used: {problem.strerror}") from None

    def _hold(self, path: Path, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno not in NO_SUCH_LOCK:
                os.close(descriptor)
                raise
        self._held.append((path, descriptor))


def _opened(lock: Path) -> int | None:
    """Where it cannot be made or changed, as it is; where there is none either, the folder's lock must do."""
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        try:
            return os.open(lock, os.O_RDONLY)
        except OSError:
            return None


def _is_another(path: Path, descriptor: int) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return True
    except OSError as problem:  # a network file system that is away for a moment, or has another in its place
        return problem.errno == errno.ESTALE
