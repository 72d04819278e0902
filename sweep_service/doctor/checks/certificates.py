"""Certificates, where Dask is told to use them: there, whole, of one authority, and good for a while."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sweep_service.doctor.checks.verdict import Check, ok, warning, why, wrong
from sweep_service.store.folder import DataFolder

SOON = timedelta(days=30)


def certificates(folder: DataFolder) -> Iterator[Check]:
    import dask

    told = dask.config.get("distributed.comm.tls", {}) or {}
    authority = told.get("ca-file")
    files = {
        path for role in ("scheduler", "worker", "client") if (path := (told.get(role) or {}).get("cert"))
    }
    if not authority and not files:
        return
    if not dask.config.get("distributed.comm.require-encryption", None):
        advice = "distributed.comm.require-encryption: true, as `sweep certificates` writes it"
        yield warning("certificates", "Dask may still speak without them", advice)
    for path in sorted({*files, *([authority] if authority else [])}):
        yield certificate(Path(path), Path(authority) if authority else None)


def certificate(path: Path, authority: Path | None, now: datetime | None = None) -> Check:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    renew = (
        "sweep certificates FOLDER --force makes new ones; then start scheduler, workers and service again"
    )
    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
        signer = x509.load_pem_x509_certificate(authority.read_bytes()) if authority else None
    except (OSError, ValueError) as error:
        return wrong("certificates", f"{path}: {why(error)}", "sweep certificates FOLDER; DASK_CONFIG=FOLDER")
    now, end = now or datetime.now(UTC), found.not_valid_after_utc
    told = f"{path} is good until {end:%Y-%m-%d}"
    try:
        if signer is not None:
            found.verify_directly_issued_by(signer)
    except (ValueError, TypeError, InvalidSignature):
        return wrong("certificates", f"{path} was not signed by {authority}", renew)
    if not found.not_valid_before_utc <= now <= end:
        begin = f"{found.not_valid_before_utc:%Y-%m-%d}"
        return wrong("certificates", f"{path} is good from {begin} to {end:%Y-%m-%d} only", renew)
    if b"PRIVATE KEY" in path.read_bytes() and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return warning("certificates", f"others may read the key in {path}", f"chmod 600 {path}")
    return warning("certificates", told, renew) if end - now < SOON else ok("certificates", told)
