"""Who may be believed: bytes under a name, signed with a key that the members of a team have.

The signature is an HMAC over the name and the content, so that what is under another name, cut off
or changed is refused, whoever may write to where it is kept.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Final

from anyshape.config import config

_MAGIC: Final = b"anyshape signed 1\n"
_SIGNATURE: Final = hashlib.sha256().digest_size
#: Shorter ones can be guessed by who has a signed file.
SHORTEST_KEY: Final = 16


class NoKey(Exception):
    """There is no key to sign with; the text says what to do."""


class BadSignature(Exception):
    """Nobody with the key wrote this under this name."""


def signing_key() -> bytes:
    """As the settings say; raises `NoKey`."""
    text, origin = config.cache_key, "config.cache_key"
    if text is None and config.cache_key_file is not None:
        origin = f"the file {config.cache_key_file}"
        try:
            text = Path(config.cache_key_file).expanduser().read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise NoKey(f"config.cache_key_file cannot be read: {error}") from None
    if text is None:
        raise NoKey("there is no key: set config.cache_key or config.cache_key_file")
    key = text.strip().encode()
    if len(key) < SHORTEST_KEY:
        raise NoKey(
            f"{origin} has {len(key)} characters, and a key needs at least {SHORTEST_KEY}:"
            " `anyshape cache key` makes one"
        )
    return key


def signed(key: bytes, name: str, payload: bytes) -> bytes:
    return _MAGIC + _signature(key, name, payload) + payload


def verified(key: bytes, name: str, data: bytes) -> bytes:
    """What was signed; raises `BadSignature`."""
    start = len(_MAGIC) + _SIGNATURE
    if not data.startswith(_MAGIC) or len(data) < start:
        raise BadSignature("it is not signed")
    payload = data[start:]
    if not hmac.compare_digest(data[len(_MAGIC) : start], _signature(key, name, payload)):
        raise BadSignature("it was signed with another key, or changed since")
    return payload


def _signature(key: bytes, name: str, payload: bytes) -> bytes:
    data = name.encode()
    return hmac.digest(key, len(data).to_bytes(8, "little") + data + payload, "sha256")
