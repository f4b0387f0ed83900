from __future__ import annotations

import errno
import os

from adsum.effects import Save, WriteFile
from adsum.storage.owed import Owed
from adsum.testing.disk import SimulatedDisk


def test_one_that_can_never_be_written_keeps_none_of_the_others_from_it() -> None:
    disk = SimulatedDisk()
    owed = Owed(disk)

    def never() -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    assert owed.do("/run/adsum.pid", never) is not None
    disk.fill()
    assert owed.save(Save((WriteFile("peers", b"1"), WriteFile("generation", b"2")), is_synced=True))
    disk.room_bytes = None
    problem = owed.retry()
    assert problem is not None
    assert problem.errno == errno.EROFS
    assert (owed.files, disk.files) == (["/run/adsum.pid"], {"peers": b"1", "generation": b"2"})
