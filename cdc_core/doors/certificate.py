"""A door's certificate with its key, read again when the files change: a renewal needs no restart."""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

import structlog

from cdc_core.config import ServiceConfig
from cdc_core.errors import ConfigError

_LOOK_SECONDS = 10.0  # between two looks at the files

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files, and the keys of the configuration that name them."""

    certificate: Path
    key: Path
    names: tuple[str, str] = ("sluice.tls.certificate", "sluice.tls.key")

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Changes when one is written or replaced. Raises OSError."""
        found = (path.stat() for path in (self.certificate, self.key))
        return tuple((one.st_mtime_ns, one.st_size, one.st_ino) for one in found)

    def read(self) -> tuple[bytes, bytes]:
        """Certificate and key, which fit each other. Raises ConfigError."""
        read = []
        for path, name in zip((self.certificate, self.key), self.names, strict=True):
            try:
                read.append(path.read_bytes())
            except OSError as error:
                raise ConfigError(
                    f"the file cannot be read: {error.strerror}",
                    place=f"{name}={path}",
                    hint="Correct the path, or let the service's user read the file.",
                ) from error
        self.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        return read[0], read[1]

    def load(self, context: ssl.SSLContext) -> None:
        """Makes new connections of the context use them. Raises ConfigError."""
        certificate, key = self.names
        try:
            context.load_cert_chain(self.certificate, self.key, password=lambda: b"")
        except (OSError, ValueError) as error:
            fits = getattr(error, "reason", "") != "KEY_VALUES_MISMATCH"
            raise ConfigError(
                f"the certificate cannot be used: {error}" if fits else "the key does not fit the certificate",
                place=f"{certificate}={self.certificate}, {key}={self.key}",
                hint=f"Give PEM files: {certificate} with the certificate and those between it and its authority, "
                f"{key} with its private key, without a password.",
            ) from error


class Certificate:
    """What several doors of one process use. `context` takes renewed files for new connections; `pem` are the same for
    a library that takes no context."""

    def __init__(self, files: CertificateFiles) -> None:
        """Raises ConfigError."""
        self._files = files
        self.pem = files.read()
        self._stamp = files.stamp()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        files.load(self.context)
        self._refused = ""
        self._stopped = threading.Event()

    def __repr__(self) -> str:
        return f"<Certificate {self._files.certificate}>"

    def start(self) -> None:
        """Looks for renewed files until `stop`."""
        threading.Thread(target=self._watch, name="certificate", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            self.renew()

    def renew(self) -> bool:
        """Whether renewed files were taken. Files that do not fit are left for the next look: they may be half
        written."""
        try:
            stamp = self._files.stamp()
            if stamp == self._stamp:
                return False
            pem = self._files.read()
            self._files.load(self.context)
        except (OSError, ConfigError) as error:
            if str(error) != self._refused:
                self._refused = str(error)
                log.error("a renewed certificate cannot be used; the previous one stays in use", why=str(error))
            return False
        self.pem, self._stamp, self._refused = pem, stamp, ""
        log.info("a renewed certificate is used", certificate=str(self._files.certificate))
        return True


def certificates(config: ServiceConfig) -> tuple[Certificate | None, Certificate | None]:
    """That of HTTP and Flight, and that of the TCP door. Raises ConfigError."""
    own = of_tcp = None
    if config.tls_certificate is not None and config.tls_key is not None:
        own = Certificate(CertificateFiles(config.tls_certificate, config.tls_key))
    if config.tcp_cert is not None and config.tcp_key is not None:
        of_tcp = Certificate(CertificateFiles(config.tcp_cert, config.tcp_key, ("sluice.tcp.cert", "sluice.tcp.key")))
    return own, of_tcp
