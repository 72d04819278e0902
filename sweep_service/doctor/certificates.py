"""TLS certificates by which the service, the scheduler and the workers of a cluster authenticate.

An authority made for one cluster signs one certificate, which all processes of the cluster use; a process
without it cannot connect. The private key of the authority is discarded, so that no further certificate can
be signed: new certificates need a new authority. A Dask configuration file in the same folder makes every
Dask process require them.
"""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sweep_service.errors import InvalidInput

AUTHORITY, CERTIFICATE, SETTINGS = "authority.pem", "cluster.pem", "dask.yaml"
CLOCK_SKEW = timedelta(days=1)  # largest difference between the clocks of two machines
VALIDITY_DAYS = 730


def write_certificates(folder: Path, days: int = VALIDITY_DAYS, force: bool = False) -> datetime:
    """Write certificates that only the owner of the folder can read; returns the time of expiry."""
    folder = folder.absolute()
    if (folder / SETTINGS).exists() and not force:
        raise InvalidInput("folder", str(folder), "already has certificates; use --force to replace them")
    now = datetime.now(UTC).replace(microsecond=0)
    expiry = now + timedelta(days=days)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority, certificate = sign_certificates(now - CLOCK_SKEW, expiry)
    _write(folder / AUTHORITY, authority)
    _write(folder / CERTIFICATE, certificate)
    # The settings are written last, because their presence marks the set as complete.
    _write(folder / SETTINGS, yaml.safe_dump(dask_settings(folder)).encode())
    return expiry


def dask_settings(folder: Path) -> dict[str, object]:
    """Return the Dask configuration, with absolute paths, as Dask may be started in any folder."""
    role = {"cert": str(folder / CERTIFICATE)}  # the file also contains the key
    files = {"ca-file": str(folder / AUTHORITY), "scheduler": role, "worker": {**role}, "client": {**role}}
    return {
        "distributed": {"comm": {"default-scheme": "tls", "require-encryption": True, "tls": files}},
    }


def sign_certificates(begin: datetime, end: datetime) -> tuple[bytes, bytes]:
    """Make an authority, and a certificate with its key signed by it. Dask does not check host names."""
    root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = (
        _builder("sweep cluster authority", "sweep cluster authority", root.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(is_authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(root.public_key()), critical=False)
        .sign(root, hashes.SHA256())
    )
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _builder("sweep cluster", "sweep cluster authority", key.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("sweep-cluster")]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root.public_key()), critical=False)
        .sign(root, hashes.SHA256())
    )
    private_key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return authority.public_bytes(Encoding.PEM), certificate.public_bytes(Encoding.PEM) + private_key


def _builder(
    subject: str, issuer: str, key: ec.EllipticCurvePublicKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_usage(is_authority: bool) -> x509.KeyUsage:
    """Return the key usage of an authority, which signs certificates, or of the cluster certificate."""
    return x509.KeyUsage(
        digital_signature=not is_authority, key_cert_sign=is_authority, crl_sign=is_authority,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically; `mkstemp` makes it readable by its owner only."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(name, path)
