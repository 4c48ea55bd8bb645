"""Only what somebody with the key wrote under this name is believed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anyshape.config import config
from anyshape.shared_cache.signature import BadSignature, NoKey, signed, signing_key, verified

KEY = b"a key of the team, long enough"
NAME = "native/ab/abcd"


def test_what_was_signed_is_believed():
    for payload in (b"", b"code", b"\0" * 1000):
        assert verified(KEY, NAME, signed(KEY, NAME, payload)) == payload


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "the last byte": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "the signature": lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
    "truncated": lambda data: data[:-3],
    "truncated in the signature": lambda data: data[:30],
    "empty": lambda data: b"",
    "longer": lambda data: data + b"\0",
    "unsigned": lambda data: b"code",
    "the payload alone": lambda data: data[-4:],
    "of another key": lambda data: signed(b"another key, long enough", NAME, b"code"),
    "under another name": lambda data: signed(KEY, NAME + "e", b"code"),
    "name and payload moved": lambda data: signed(KEY, NAME + "c", b"ode"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_nothing_else_is(change: Callable[[bytes], bytes]):
    with pytest.raises(BadSignature):
        verified(KEY, NAME, change(signed(KEY, NAME, b"code")))


def test_keys_come_from_settings_and_files(tmp_path: Path):
    file = tmp_path / "key"
    file.write_text("the key in a file, long enough\n")
    with config.patch(cache_key=None, cache_key_file=None), pytest.raises(NoKey, match="no key"):
        signing_key()
    with config.patch(cache_key=None, cache_key_file=file):
        assert signing_key() == b"the key in a file, long enough"
        with config.patch(cache_key="the key of the setting"):
            assert signing_key() == b"the key of the setting"
    with config.patch(cache_key="short"), pytest.raises(NoKey, match="at least 16") as caught:
        signing_key()
    assert "short" not in str(caught.value).replace("shortest", "")
    gone = tmp_path / "gone"
    with config.patch(cache_key=None, cache_key_file=gone), pytest.raises(NoKey, match="gone"):
        signing_key()


def test_the_key_is_not_shown():
    with config.patch(cache_key="a secret that nobody sees"):
        assert "nobody sees" not in repr(config)
        assert "cache_key = '...'" in repr(config)
