from __future__ import annotations

import errno

import pytest

from adsum.logs.system_errors import is_shortage, is_shortage_at_start, told
from tests.files import no_file_left

RAISE_LIMIT = (
    "too many open files: raise the agent's limit, by LimitNOFILE= in its systemd unit or by ulimit -n"
)
RAISE_HOSTS = "too many open files in system: see which process of this host holds them, or raise fs.file-max"
LOADER = "libcrypto.so.3: cannot open shared object file: {}"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.EMFILE, "Too many open files"), RAISE_LIMIT),
        (OSError(errno.ENFILE, "Too many open files in system"), RAISE_HOSTS),
        (ImportError(LOADER.format("Too many open files")), RAISE_LIMIT),
        (ImportError(LOADER.format("Too many open files in system")), RAISE_HOSTS),
        (OSError(errno.ENOMEM, ""), "cannot allocate memory: see what takes this host's memory"),
    ],
)
def test_a_shortage_is_told_with_what_to_do(error: Exception, sentence: str) -> None:
    assert is_shortage(error)
    assert told(error) == sentence


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOENT, "No such file or directory"), "No such file or directory"),
        (ImportError("no module named re3"), "no module named re3"),
        (ValueError("24"), "24"),
    ],
)
def test_anything_else_is_none_and_told_as_it_is(error: Exception, sentence: str) -> None:
    assert not is_shortage(error)
    assert told(error) == sentence


@pytest.mark.parametrize("error", [BlockingIOError(errno.EAGAIN, ""), RuntimeError("can't start new thread")])
def test_want_of_a_process_or_a_thread_is_one_to_who_starts_a_program(error: Exception) -> None:
    assert (is_shortage_at_start(error), is_shortage(error)) == (True, False)
    assert told(error) == (
        "resource temporarily unavailable: see what takes the processes and threads of the agent's user, or "
        "raise TasksMax= in its systemd unit or ulimit -u"
    )
    assert not is_shortage_at_start(RuntimeError("dictionary changed size during iteration"))


def test_what_python_raises_without_files_is_a_shortage() -> None:
    with no_file_left(), pytest.raises(OSError, match="Too many open files") as file:
        open(__file__)  # noqa: SIM115 - it fails
    with no_file_left(), pytest.raises((OSError, ImportError)) as module:
        import colorsys  # noqa: F401 - a module that nothing here needs
    assert is_shortage(file.value)
    assert is_shortage(module.value)
