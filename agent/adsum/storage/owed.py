"""What is not on disk yet though it should be: the last word for each file, until the disk takes it.

A full disk, or one that is mounted read-only, is no reason to stop for what nobody was promised: what TTL
checks said, the list of peers, the generation. It is kept here and tried again, so that all of it is written
when there is room, whether or not it changes again.

Filled by the loop and by the thread that writes; each step is one operation on a dict.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from adsum.effects import FileChange, Persist, Save, WriteFile
from adsum.storage.disk import Disk

Job = Callable[[], None]


class Owed:
    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self._jobs: dict[str, Job] = {}  # by file; no more than there are registrations, and a handful

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def files(self) -> list[str]:
        return list(self._jobs)

    def persist(self, persist: Persist) -> OSError | None:
        """Now or never: somebody waits, and hears of the problem."""
        try:
            self.disk.change(persist.changes)
        except OSError as problem:
            return problem
        for change in persist.changes:
            self._jobs.pop(change.path, None)  # what was owed of it is out of date
        return None

    def save(self, save: Save) -> OSError | None:
        """Each file now if that is possible, else later. The problem, if there is one."""
        problems = [
            self.do(change.path, partial(_carry_out, self.disk, change, is_synced=save.is_synced))
            for change in save.changes
        ]
        return next(filter(None, problems), None)

    def do(self, path: str, job: Job) -> OSError | None:
        self._jobs[path] = job
        return self._try(path, job)

    def retry(self) -> OSError | None:
        """Each: one that can never be written, as a pid file in a folder of others, keeps none from it. The
        first problem, if there is one."""
        problems = [self._try(path, job) for path, job in list(self._jobs.items())]
        return next(filter(None, problems), None)

    def _try(self, path: str, job: Job) -> OSError | None:
        try:
            job()
        except OSError as problem:
            return problem
        if self._jobs.get(path) is job:
            del self._jobs[path]
        return None


def _carry_out(disk: Disk, change: FileChange, *, is_synced: bool) -> None:
    if isinstance(change, WriteFile) and not is_synced:
        disk.replace(change.path, change.content)
    else:
        disk.change((change,))


class OwingDisk:
    """For a start: what cannot be written now is owed, and the agent comes up all the same."""

    def __init__(self, owed: Owed) -> None:
        self._owed = owed
        self.read = owed.disk.read
        self.names = owed.disk.names
        self.set_aside = owed.disk.set_aside

    def change(self, changes: tuple[FileChange, ...]) -> None:
        self._owed.save(Save(changes, is_synced=True))

    def write_durably(self, path: str, content: bytes) -> None:
        self.change((WriteFile(path, content),))

    def replace(self, path: str, content: bytes) -> None:
        self._owed.save(Save((WriteFile(path, content),), is_synced=False))
