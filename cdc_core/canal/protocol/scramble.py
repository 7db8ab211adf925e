"""Passwords on the wire: MySQL's scramble of 4.1 in hexadecimal.

The configuration has SHA1(SHA1(password)), the client sends SHA1(password) XOR SHA1(seed + SHA1(SHA1(password))).
Source: Canal 1.1.8, `SecurityUtil`.
"""

from __future__ import annotations

import hashlib
import hmac

SEED = 8  # bytes


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


def stored(password: str) -> str:
    """What `canal.passwd` has for a password."""
    return _sha1(_sha1(password.encode())).hex()


def token(password: str, seed: bytes) -> str:
    """What a client sends."""
    once = _sha1(password.encode())
    return _xor(once, _sha1(seed + _sha1(once))).hex()


def matches(sent: str, kept: str, seed: bytes) -> bool:
    """Whether a client that sent this knows the password of which `canal.passwd` is kept."""
    try:
        given, hashed = bytes.fromhex(sent), bytes.fromhex(kept)
    except ValueError:
        return False
    if len(given) != 20 or len(hashed) != 20:
        return False
    return hmac.compare_digest(_sha1(_xor(given, _sha1(seed + hashed))), hashed)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
