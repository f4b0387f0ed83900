from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from adsum.net.ciphers import derive
from adsum.net.keyring import (
    KEYS_MAX,
    PATH,
    BadKey,
    GossipKey,
    KeyringDamaged,
    KeyringError,
    UnknownKey,
    is_overruled,
    load,
)
from adsum.storage.disk import OsDisk
from adsum.storage.memory import MemoryDisk
from adsum.testing.disk import SimulatedDisk
from tests.net.support import KEY_A, KEY_B, ring


def key(number: int) -> str:
    return base64.b64encode(number.to_bytes(16)).decode()


@pytest.mark.parametrize("size", [16, 24, 32])
def test_keys_of_consul_s_sizes_are_taken(size: int) -> None:
    text = base64.b64encode(bytes(size)).decode()
    assert GossipKey.from_text(text).text == text


@pytest.mark.parametrize("text", ["", "short", base64.b64encode(bytes(15)).decode(), "!" * 24, KEY_A[:-1]])
def test_what_is_no_key_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(BadKey, match="adsum keygen"):
        GossipKey.from_text(text)


def test_derivation_is_hkdf() -> None:
    theirs = HKDF(SHA256(), 24, salt=b"salt", info=b"info").derive(b"secret" * 4)
    assert derive(b"secret" * 4, salt=b"salt", info=b"info", length=24) == theirs


def test_a_keyring_that_is_not_even_text_is_damaged() -> None:
    disk = MemoryDisk()
    disk.replace("keyring", b'{"generation":1,"keys":["\xc8\xff"]}')
    with pytest.raises(KeyringDamaged, match="is no keyring"):
        load(disk, None)


def test_without_a_key_nothing_can_be_installed() -> None:
    with pytest.raises(KeyringError, match="encryption not enabled"):
        ring().install(KEY_A)


def test_a_rotation_installs_uses_and_removes() -> None:
    keyring = ring(KEY_A)
    keyring.install(KEY_B)
    keyring.use(KEY_B)
    keyring.remove(KEY_A)
    assert [each.text for each in keyring.keys] == [KEY_B]
    assert keyring.generation == 4


def test_steps_that_change_nothing_count_nothing() -> None:
    keyring = ring(KEY_A)
    keyring.install(KEY_A)
    keyring.use(KEY_A)
    assert keyring.generation == 1


def test_the_primary_is_not_removed_and_an_unknown_key_not_used() -> None:
    keyring = ring(KEY_A)
    with pytest.raises(KeyringError, match="is the primary key"):
        keyring.remove(KEY_A)
    with pytest.raises(UnknownKey):
        keyring.use(KEY_B)
    with pytest.raises(UnknownKey):
        keyring.remove(KEY_B)
    assert keyring.generation == 1


def test_a_full_keyring_says_so() -> None:
    keyring = ring(*map(key, range(KEYS_MAX)))
    with pytest.raises(KeyringError, match="8 keys are installed already; remove one"):
        keyring.install(key(KEYS_MAX))


def test_keys_that_look_alike_on_the_wire_are_not_installed_together() -> None:
    hints: dict[bytes, str] = {}
    for number in range(1 << 16):
        text = key(number)
        other = hints.setdefault(GossipKey.from_text(text).hint, text)
        if other != text:
            with pytest.raises(BadKey, match="make another"):
                ring(other).install(text)
            return
    raise AssertionError("a birthday among 65,536 hints is certain by then")


def test_the_file_is_the_owner_s_alone_and_survives(tmp_path: Path) -> None:
    keyring = load(OsDisk(tmp_path), KEY_A)
    keyring.install(KEY_B)
    assert stat.S_IMODE((tmp_path / PATH).stat().st_mode) == 0o600
    again = load(OsDisk(tmp_path), None)
    assert (again.keys, again.generation) == (keyring.keys, 2)


def test_the_file_wins_over_the_setting() -> None:
    disk = MemoryDisk()
    load(disk, KEY_A)
    keyring = load(disk, KEY_B)
    assert [each.text for each in keyring.keys] == [KEY_A]
    assert is_overruled(keyring, KEY_B)
    assert not is_overruled(keyring, KEY_A)
    assert not is_overruled(keyring, None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'["x"]',
        b'{"generation":1,"keys":[]}',
        b'{"generation":1,"keys":["c2VjcmV0"]}',
        b'{"generation":1,"keys":["%s","%s"]}' % (KEY_A.encode(), KEY_A.encode()),
    ],
)
def test_a_damaged_file_stops_the_start_rather_than_the_encryption(content: bytes) -> None:
    disk = MemoryDisk()
    disk.write_durably(PATH, content)
    with pytest.raises(KeyringDamaged) as caught:
        load(disk, KEY_A)
    assert "c2VjcmV0" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_change_that_cannot_be_kept_is_not_made() -> None:
    class FullDisk(MemoryDisk):
        def write_durably(self, path: str, content: bytes) -> None:
            if self.files:
                raise OSError(28, "No space left on device")
            super().write_durably(path, content)

    keyring = load(FullDisk(), KEY_A)
    changes: list[int] = []
    keyring.on_change(lambda: changes.append(keyring.generation))
    with pytest.raises(OSError, match="No space"):
        keyring.install(KEY_B)
    assert (len(keyring), keyring.generation, changes) == (1, 1, [])


def test_a_setting_that_cannot_be_kept_yet_is_as_good_until_it_can() -> None:
    disk = SimulatedDisk()
    disk.fill()
    keyring = load(disk, KEY_A)
    assert ([each.text for each in keyring.keys], keyring.is_saved) == ([KEY_A], False)
    disk.room_bytes = None
    keyring.save()
    assert keyring.is_saved
    assert [each.text for each in load(disk, None).keys] == [KEY_A]


def test_a_file_that_was_lost_is_written_as_the_keyring_is_now() -> None:
    disk = MemoryDisk()
    keyring = load(disk, KEY_A)
    keyring.install(KEY_B)
    disk.files.clear()
    keyring.save()
    again = load(disk, None)
    assert (again.keys, again.generation) == (keyring.keys, 2)


def test_secrets_are_not_shown() -> None:
    keyring = ring(KEY_A)
    shown = f"{keyring!r} {keyring.keys!r} {keyring.primary} {vars(keyring)!r}"
    assert KEY_A not in shown.replace("files", "")
    assert "aaaa" not in shown
