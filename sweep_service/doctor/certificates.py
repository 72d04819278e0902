"""Certificates by which the service, the scheduler and the workers of a cluster know each other.

One authority, made for one cluster, signs one certificate that all of them show: whoever has it may join,
nobody else may. The authority's own key is forgotten, so that nothing can ever be added; new certificates
are a new cluster. A file of settings beside them tells every Dask process to use them, and nothing else.
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
SKEW = timedelta(days=1)  # by which clocks of machines may differ
DAYS = 730


def make(folder: Path, days: int = DAYS, force: bool = False) -> datetime:
    """Write them into a folder, for its owner alone; returns when they end."""
    folder = folder.absolute()
    if (folder / SETTINGS).exists() and not force:
        raise InvalidInput("folder", str(folder), "has certificates: --force makes others in their place")
    now = datetime.now(UTC).replace(microsecond=0)
    end = now + timedelta(days=days)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority, certificate = _signed(now - SKEW, end)
    _write(folder / AUTHORITY, authority)
    _write(folder / CERTIFICATE, certificate)
    _write(folder / SETTINGS, yaml.safe_dump(settings(folder)).encode())  # last: now they are whole
    return end


def settings(folder: Path) -> dict[str, object]:
    """What Dask has to know. Paths are whole, as Dask reads them from wherever it was started."""
    ours = {"cert": str(folder / CERTIFICATE)}  # the key is in the same file
    files = {"ca-file": str(folder / AUTHORITY), "scheduler": ours, "worker": {**ours}, "client": {**ours}}
    return {
        "distributed": {"comm": {"default-scheme": "tls", "require-encryption": True, "tls": files}},
    }


def _signed(begin: datetime, end: datetime) -> tuple[bytes, bytes]:
    """The authority; and a certificate that it has signed, with its key. Dask looks at no host names."""
    root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = (
        _begun("sweep cluster authority", "sweep cluster authority", root.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(root.public_key()), critical=False)
        .sign(root, hashes.SHA256())
    )
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _begun("sweep cluster", "sweep cluster authority", key.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("sweep-cluster")]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root.public_key()), critical=False)
        .sign(root, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return authority.public_bytes(Encoding.PEM), certificate.public_bytes(Encoding.PEM) + secret


def _begun(
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


def _usage(signs: bool) -> x509.KeyUsage:
    """An authority signs certificates; everybody else signs what is said."""
    return x509.KeyUsage(
        digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, and never readable by others: a new file here is its owner's alone."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(name, path)
