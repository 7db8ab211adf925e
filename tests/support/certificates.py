"""An authority of one test, and certificates of 127.0.0.1 and localhost that it has signed."""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Extensions = list[tuple[x509.ExtensionType, bool]]

_PEM = serialization.Encoding.PEM


class Authority:
    """Writes into `folder`: its own certificate at `path`, signed ones and their keys at `certificate` and `key`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.path, self.certificate, self.key = folder / f"{name}.pem", folder / "door.pem", folder / "door.key"
        self._key, self._name = ec.generate_private_key(ec.SECP256R1()), _named(name)
        extensions: Extensions = [(x509.BasicConstraints(True, None), True), (_usage(signs=True), True)]
        self._own = self._signed(self._name, self._key.public_key(), x509.random_serial_number(), extensions)
        self.path.write_bytes(self._own.public_bytes(_PEM))

    @property
    def pem(self) -> str:
        return self.path.read_text()

    def issue(self, serial: int = 1) -> None:
        """Writes a certificate with that number, and its key."""
        certificate, key = self.issued(serial)
        for path, text in ((self.key, key), (self.certificate, certificate)):
            fresh = path.with_suffix(".new")
            fresh.write_bytes(text)
            os.replace(fresh, path)  # noqa: PTH105

    def issued(self, serial: int = 1) -> tuple[bytes, bytes]:
        """A certificate and its key as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        own_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        extensions: Extensions = [
            (x509.SubjectAlternativeName(names), False),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
            (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own_id), False),
        ]
        signed = self._signed(_named("door"), key.public_key(), serial, extensions)
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return signed.public_bytes(_PEM), private

    def _signed(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, serial: int, extensions: Extensions
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(serial).not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=30))
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(True, False, False, False, False, signs, signs, False, False)
