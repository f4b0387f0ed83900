"""What the writer's thread does with a batch, and what is not on disk yet though it should be.

A full disk, or one that is mounted read-only, is no reason to stop for what nobody was promised: what TTL
checks said, the list of peers, the generation. The last word for each file is kept here and tried again, so
that all of it is written when there is room, whether or not it changes again.

Filled by the loop and by the thread that writes; each step is one operation on a dict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from adsum.effects import FileChange, Persist, Save, WriteFile
from adsum.logs.system_errors import OUT_OF_FILES
from adsum.storage.disk import Disk

Job = Callable[[], None]


def _stays() -> bool:
    return False


class DiskOutcome:
    """Of one batch."""

    __slots__ = ("has_written", "is_folder_new", "unsaved", "waits", "written")

    def __init__(self, *, is_folder_new: bool) -> None:
        self.is_folder_new = is_folder_new
        self.has_written = False
        self.written: list[tuple[int, OSError | None]] = []  # tickets
        self.unsaved: list[OSError] = []
        self.waits: OSError | None = None  # for a file descriptor, with all that was not come to

    def note(self, problem: OSError | None) -> None:
        """Of what nobody waits for."""
        if problem is None:
            self.has_written = True
        else:
            self.unsaved.append(problem)


class Owed:
    def __init__(self, disk: Disk, renew: Callable[[], bool] = _stays) -> None:
        """`renew` says whether the data folder was gone and is a new one."""
        self.disk = disk
        self._renew = renew
        self._jobs: dict[str, Job] = {}  # by file; no more than there are registrations, and a handful

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def files(self) -> list[str]:
        return list(self._jobs)

    def work_off(self, batch: deque[Persist | Save], *, retries: bool) -> DiskOutcome:
        """In their order; what is left in the batch has not been begun. What somebody waits for is written
        now or never, and its problem is told."""
        outcome = DiskOutcome(is_folder_new=self._renew())
        if retries and self._jobs:
            outcome.note(self.retry())
        while batch:
            effect = batch[0]
            if isinstance(effect, Save):
                outcome.note(self.save(effect))
            else:
                try:
                    self.disk.change(effect.changes)
                except OSError as problem:
                    if problem.errno in OUT_OF_FILES:
                        outcome.waits = problem
                        break
                    outcome.written.append((effect.ticket, problem))
                else:
                    outcome.has_written = True
                    outcome.written.append((effect.ticket, None))
                    for change in effect.changes:
                        self._jobs.pop(change.path, None)  # what was owed of it is out of date
            batch.popleft()
        return outcome

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
