"""A connection that gives its password to no other server in clear: not without TLS, and a token not without a verified
certificate.

pymysql encrypts the password of `caching_sha2_password` and `sha256_password` accounts with whatever RSA key the server
sends, and sends it in clear to a server that asks so: whoever answers in the server's place has it then. With a key of
one's own no key is taken from the network, and without TLS no clear password is sent.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pymysql
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from pymysql.constants import CR

from cdc_core.errors import ConfigError

_IN_CLEAR = (b"mysql_clear_password", b"dialog")


class ClearPasswordRefused(pymysql.err.OperationalError):
    """The server asks for the password in clear, and must not have it so."""


class GuardedConnection(pymysql.Connection):
    """`public_key` is the server's RSA key as PEM; b"": the one that it sends. `is_token`: the password lets whoever
    hears it in, as it is no secret of this server alone: it goes in clear only to a server that is verified."""

    def __init__(self, *, public_key: bytes = b"", is_token: bool = False, **options: Any) -> None:
        self._own_key, self._is_token = public_key, is_token
        self.fetched_key: bytes | None = None
        super().__init__(**options)

    @property
    def server_public_key(self) -> bytes | None:
        """The key that pymysql encrypts with. What the server sends is not taken where there is one of ours."""
        return self._own_key or self.fetched_key

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        self.fetched_key = None if self._own_key else key

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        """Returns the TLS of pymysql's settings. Its own way verifies nothing where no file of authorities is given."""
        if isinstance(sslp, ssl.SSLContext):
            return sslp
        verifies = sslp.get("verify_mode", ssl.CERT_NONE) != ssl.CERT_NONE
        files = (sslp.get(name) or "" for name in ("ca", "cert", "key"))
        return tls_context(*files, verifies=verifies, named=verifies and sslp.get("check_hostname", True))

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
        if plugin_name in _IN_CLEAR and (missing := self._missing()):
            why = f"the server asks for the password in clear ({plugin_name.decode()}), {missing}"
            raise ClearPasswordRefused(CR.CR_AUTH_PLUGIN_ERR, why)
        return super()._process_auth(plugin_name, auth_packet, handler)  # type: ignore[misc]

    def _missing(self) -> str:
        """Returns why the password must not go in clear, or ""."""
        if not self._secure:  # type: ignore[attr-defined]
            return "without TLS"
        if self._is_token and self.ctx.verify_mode != ssl.CERT_REQUIRED:  # type: ignore[attr-defined]
            return "and its certificate is not verified"
        return ""


def tls_context(ca: str, cert: str, key: str, *, verifies: bool, named: bool) -> ssl.SSLContext:
    """Returns the TLS of a connection. `ca`, `cert`, `key`: PEM files, or "". `verifies`: the certificate of a server,
    by the system's authorities without a file; `named`: it must have the server's name. Raises OSError.

    The system's certificates are read only to verify with them: that takes 25 ms of CPU, the rest of a connection 3.
    """
    if verifies or ca:
        context = ssl.create_default_context(cafile=ca or None)
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if cert:
        context.load_cert_chain(cert, key or None)
    context.check_hostname = named
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # MySQL's own certificates lack extensions that this asks for
    return context


def read_public_key(path: str | Path | None) -> bytes:
    """The RSA key of a PEM file; b"" without a path. Raises ConfigError."""
    if not path:
        return b""
    try:
        text = Path(path).read_bytes()
        if not isinstance(load_pem_public_key(text), RSAPublicKey):
            raise ValueError("it is not an RSA key")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error).partition(".")[0]
        raise ConfigError(
            f"the server's public key cannot be read: {why}",
            place=f"sluice.rsa.publicKey={path}",
            hint="Give public_key.pem of the server's data directory, or what SHOW STATUS LIKE "
            "'Caching_sha2_password_rsa_public_key' shows.",
        ) from error
    return text
