"""Certificates and keys from files into a context, and sentences for an operator about those that won't go.

OpenSSL answers "PEM lib" to most mistakes, so each file is looked at before it is handed over. A folder of
authorities is read as Consul reads it, every file in it and below; OpenSSL's own way takes only files that
are named by a hash. The command line uses this too, so nothing here imports trio.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from adsum.frozen import dataclass

if TYPE_CHECKING:
    import ssl

FILE_BYTES_MAX = 4 * 1024 * 1024  # a bundle of all public authorities is a quarter of a megabyte
AUTHORITY_FILES_MAX = 4_096
CERTIFICATE_MARKS = (b"-----BEGIN CERTIFICATE-----", b"-----BEGIN TRUSTED CERTIFICATE-----")
KEY_MARK = b"PRIVATE KEY-----"
ENCRYPTED_MARK = b"ENCRYPTED"


@dataclass(frozen=True, slots=True)
class Problem:
    key: str  # of the configuration
    sentence: str

    def __str__(self) -> str:
        return f"{self.key} {self.sentence}"


class BadTls(Exception):
    """Settings or files that can't be used; nothing was changed. An agent must not start, for it would speak
    in clear.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


class _Unusable(Exception):
    """One file; the message goes behind its path."""


def load_pair(context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
    checks = (("cert_file", cert_file, _check_certificate), ("key_file", key_file, _check_key))
    if problems := [problem for check in checks for problem in _complaints(*check)]:
        raise BadTls(problems)
    try:
        context.load_cert_chain(cert_file, key_file)
    except OSError as error:  # SSLError is one
        problem = Problem("cert_file", f"{cert_file} with the key {key_file} cannot be used: {told(error)}")
        if getattr(error, "reason", None) in {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"}:
            problem = Problem("key_file", f"{key_file} is not the key of the certificate in {cert_file}")
        raise BadTls([problem]) from None


def load_authorities(context: ssl.SSLContext, ca_file: str, ca_path: str) -> None:
    """Of both the file is read, as Consul does."""
    import ssl

    # as Go takes them: an intermediate authority may be trusted without its root
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    key, paths = ("ca_file", [ca_file]) if ca_file else ("ca_path", list(_files_below(ca_path)))
    problems = []
    for path in paths:
        if found := list(_complaints(key, path, _check_certificate)):
            problems += found
            continue
        try:
            context.load_verify_locations(cafile=path)
        except OSError as error:
            sentence = f"{path} holds no certificate that OpenSSL can read ({told(error)})"
            problems.append(Problem(key, sentence))
    if problems:
        raise BadTls(problems)


def _files_below(folder: str) -> Iterator[str]:
    names: list[str] = []
    try:
        os.listdir(folder)
    except OSError as error:
        raise BadTls([Problem("ca_path", f"{folder} cannot be read: {error.strerror}")]) from None
    for place, folders, files in os.walk(folder):
        folders.sort()
        names += [os.path.join(place, name) for name in sorted(files)]
        if len(names) > AUTHORITY_FILES_MAX:
            sentence = f"{folder} holds more than {AUTHORITY_FILES_MAX} files: is it the right folder?"
            raise BadTls([Problem("ca_path", sentence)])
    if not names:
        raise BadTls([Problem("ca_path", f"{folder} holds no file: put the authority's certificate there")])
    yield from names


def _complaints(key: str, path: str, check: Callable[[bytes], None]) -> Iterator[Problem]:
    try:
        check(_read(path))
    except _Unusable as problem:
        yield Problem(key, f"{path} {problem}")


def _check_certificate(data: bytes) -> None:
    if not any(mark in data for mark in CERTIFICATE_MARKS):
        raise _Unusable("holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")


def _check_key(data: bytes) -> None:
    if KEY_MARK not in data:
        raise _Unusable("holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)")
    if ENCRYPTED_MARK in data:
        raise _Unusable("is locked with a passphrase, which nobody is there to type: store it without one")


def _read(path: str) -> bytes:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise _Unusable("is no regular file")
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except PermissionError:
        raise _Unusable("cannot be read: allow the agent's user to read it") from None
    except OSError as error:
        raise _Unusable(f"cannot be read: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise _Unusable(f"is larger than {FILE_BYTES_MAX} bytes")
    return data


def told(error: OSError) -> str:
    """OpenSSL's reason in small letters; its whole message names its own source files."""
    reason = getattr(error, "reason", None)
    return reason.replace("_", " ").lower() if reason else error.strerror or str(error)
