"""Passwords of Canal's protocol."""

from __future__ import annotations

from cdc_core.canal.protocol.scramble import matches, stored, token


def test_the_kept_hash_is_that_of_canals_documentation() -> None:
    """`canal` is kept as the hash that Canal's own file has for it."""
    assert stored("canal") == "e3619321c1a937c46a0d8bd1dac39f93b27d4458"


def test_a_token_matches_its_password_and_its_seed_alone() -> None:
    """Another password, another seed, no password and bytes that are no hash do not match."""
    kept, seed = stored("secret"), b"12345678"
    assert matches(token("secret", seed), kept, seed)
    assert matches(token("secret", seed).upper(), kept.upper(), seed)
    for sent in (token("other", seed), token("secret", b"87654321"), "", "zz", kept, kept[:-2]):
        assert not matches(sent, kept, seed)
    assert not matches(token("secret", seed), "", seed)
