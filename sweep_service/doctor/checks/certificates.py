"""Certificates that Dask is configured to use: readable, signed by the authority, and valid for a while."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sweep_service.doctor.checks.verdict import Check, describe_error, ok, warning, wrong
from sweep_service.extras import is_installed
from sweep_service.store.folder import DataFolder

EXPIRY_WARNING = timedelta(days=30)


def check_certificates(folder: DataFolder) -> Iterator[Check]:
    """Check the certificates of Dask's configuration, if it has any."""
    if not is_installed("dask"):
        return
    import dask

    tls = dask.config.get("distributed.comm.tls", {}) or {}
    authority = tls.get("ca-file")
    files = {
        path for role in ("scheduler", "worker", "client") if (path := (tls.get(role) or {}).get("cert"))
    }
    if not authority and not files:
        return
    if not dask.config.get("distributed.comm.require-encryption", None):
        advice = "set distributed.comm.require-encryption to true, as `sweep certificates` does"
        yield warning("certificates", "Dask also accepts unencrypted connections", advice)
    for path in sorted({*files, *([authority] if authority else [])}):
        yield check_certificate(Path(path), Path(authority) if authority else None)


def check_certificate(path: Path, authority: Path | None, now: datetime | None = None) -> Check:
    """Check the issuer, the validity and the permissions of a certificate."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    renew = "renew with sweep certificates FOLDER --force; then restart scheduler, workers and service"
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        signer = x509.load_pem_x509_certificate(authority.read_bytes()) if authority else None
    except (OSError, ValueError) as error:
        return wrong(
            "certificates",
            f"{path}: {describe_error(error)}",
            "run sweep certificates FOLDER, and set DASK_CONFIG=FOLDER",
        )
    now, expiry = now or datetime.now(UTC), certificate.not_valid_after_utc
    found = f"{path} is valid until {expiry:%Y-%m-%d}"
    try:
        if signer is not None:
            certificate.verify_directly_issued_by(signer)
    except (ValueError, TypeError, InvalidSignature):
        return wrong("certificates", f"{path} was not signed by {authority}", renew)
    if not certificate.not_valid_before_utc <= now <= expiry:
        begin = f"{certificate.not_valid_before_utc:%Y-%m-%d}"
        return wrong("certificates", f"{path} is valid only from {begin} to {expiry:%Y-%m-%d}", renew)
    if b"PRIVATE KEY" in path.read_bytes() and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return warning("certificates", f"other users can read the key in {path}", f"chmod 600 {path}")
    return (
        warning("certificates", found, renew) if expiry - now < EXPIRY_WARNING else ok("certificates", found)
    )
