"""Checks of a data folder: its store, file systems, lock and ledger."""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import tempfile
import time as clock
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

from sweep_service.doctor.checks.verdict import Check, describe_error, ok, warning, wrong
from sweep_service.errors import Damaged, InUse, SweepError, TooNew
from sweep_service.store.folder import LEDGER, DataFolder
from sweep_service.store.ledger import State

ROUNDS = 5
CREATORS = 8
SLOW_STORE_SECONDS = 0.5  # to write and read a few bytes
REPLACE_STORE = "data is not safe there: use a local disk, or an S3 server with conditional writes"


def check_store(folder: DataFolder, slow_seconds: float = SLOW_STORE_SECONDS) -> Iterator[Check]:
    """Check that objects can be written, read, listed, deleted, and created by only one of many writers."""
    objects, stem, root = folder.objects, f"doctor-{uuid.uuid4().hex[:12]}", str(folder.root)
    names, seconds = [f"{stem}.{number}" for number in range(ROUNDS)], []
    try:
        for name in names:
            began = clock.perf_counter()
            objects.put(name, name.encode())
            if objects.get(name) != name.encode():
                yield wrong("store", f"{root} returns other bytes than were written", REPLACE_STORE)
                return
            seconds.append(clock.perf_counter() - began)
        with ThreadPoolExecutor(CREATORS) as pool:
            created = list(pool.map(lambda n: objects.create(f"{stem}.shared", b"%d" % n), range(CREATORS)))
        listed = set(objects.list(stem))
    except (OSError, SweepError) as error:
        yield wrong("store", f"{root}: {describe_error(error)}", _advise(folder, error))
        return
    finally:
        for name in (*names, f"{stem}.shared"):
            with suppress(OSError, SweepError):
                objects.delete(name)
    if listed != {*names, f"{stem}.shared"}:
        yield wrong("store", f"{root} does not list objects that were just written", REPLACE_STORE)
    elif sum(created) != 1:
        yield wrong(
            "store", f"{root} let {sum(created)} of {CREATORS} writers create the same object", REPLACE_STORE
        )
    elif set(objects.list(stem)):
        yield wrong("store", f"{root} keeps deleted objects", REPLACE_STORE)
    else:
        median = sorted(seconds)[ROUNDS // 2]
        found = f"{root}: written and read in {1000 * median:.1f} ms; one of {CREATORS} writers can create"
        advice = "sweeps wait for the store: use a closer server or a faster disk"
        yield warning("store", found, advice) if median > slow_seconds else ok("store", found)


def _advise(folder: DataFolder, error: Exception) -> str:
    if not isinstance(folder.root, Path):
        return "check the server and AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and its secret"
    if isinstance(error, PermissionError):
        return f"allow this user to write: chown -R {os.getuid()} {folder.root}"
    return "choose a writable folder with --data or SWEEP_DATA"


# File systems on which a lock may be silently local, or a rename not atomic for other machines.
NETWORK_FILE_SYSTEM = re.compile(r"nfs|cifs|smb|9p|sshfs|s3fs|gluster|ceph|lustre|beegfs|gpfs|afs|fuse\.")
TEMPORARY_FILE_SYSTEMS = {"tmpfs": "a reboot", "ramfs": "a reboot", "overlay": "the container"}


def check_file_systems(folder: DataFolder) -> Iterator[Check]:
    """Check the types of the file systems, and that locks exclude each other."""
    if isinstance(folder.root, Path) and folder.root.is_dir():
        yield _check_file_system("folder", folder.root)
        yield _check_locks(folder.root)
    if folder.state != folder.root and folder.state.is_dir():
        yield _check_file_system("state", folder.state)
    if NETWORK_FILE_SYSTEM.search(file_system_type(folder.state)):
        advice = "set SWEEP_STATE to a folder on a local disk"
        yield warning("ledger place", f"SQLite may be damaged on {file_system_type(folder.state)}", advice)


def check_permissions(folder: DataFolder) -> Iterator[Check]:
    """Check that other users of this machine cannot read the data, nor change the ledger."""
    folders = {folder.state, *([folder.root] if isinstance(folder.root, Path) else [])}
    others = [path for path in sorted(folders) if path.is_dir() and path.stat().st_mode & stat.S_IRWXO]
    ledger = folder.state / LEDGER
    if ledger.is_file() and folder.state in others and ledger.stat().st_mode & stat.S_IRWXO:
        others.append(ledger)
    paths = " ".join(map(str, others))
    if others:
        advice = f"exclude them: chmod o= {paths}"
        yield warning("permissions", f"every user of this machine has access to {paths}", advice)
    elif any(path.is_dir() for path in folders):
        yield ok("permissions", "other users have no access")


def _check_file_system(name: str, path: Path) -> Check:
    file_system = file_system_type(path)
    found = f"{path.resolve()} on {file_system or 'an unknown file system'}"
    if NETWORK_FILE_SYSTEM.search(file_system):
        advice = "mount it on all machines with locks and without name caching (nfs: noac or actimeo=1)"
        return warning(name, found, advice)
    if file_system in TEMPORARY_FILE_SYSTEMS:
        end = TEMPORARY_FILE_SYSTEMS[file_system]
        return warning(name, f"{found}, which does not survive {end}", "use a disk or a volume")
    return ok(name, found)


def file_system_type(path: Path, mounts: str = "/proc/self/mountinfo") -> str:
    """Return the type of the innermost mount that contains a path, or "" if it is unknown."""
    path = path.resolve()
    try:
        lines = Path(mounts).read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    innermost, depth = "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4]))
        if (path == point or point in path.parents) and len(point.parts) >= depth:
            innermost, depth = after.split()[0], len(point.parts)
    return innermost


def _check_locks(root: Path) -> Check:
    with tempfile.NamedTemporaryFile(dir=root) as first, open(first.name, "rb") as second:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ok("locks", "a second lock is refused")
    advice = "two services could write at once: mount it with locks, or use another file system"
    return wrong("locks", f"{root} grants the same lock twice", advice)


SERVICE_TIMEOUT_SECONDS = 3.0
# The service is on this machine, where no proxy is needed, whatever HTTP_PROXY says.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _ready_request(url: str) -> urllib.request.Request:
    token = os.environ.get("SWEEP_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return urllib.request.Request(f"{url}/readyz", headers=headers)


def check_lock_holder(folder: DataFolder) -> Iterator[Check]:
    """Check which process holds the folder, and whether it is a service that answers."""
    try:
        with folder.lock():
            yield ok("in use", "no")
            return
    except InUse as error:
        holder, url = str(error), error.url
    except (OSError, SweepError):  # reported by check_store
        return
    if not url:
        yield ok("in use", holder)
        return
    try:
        with _DIRECT.open(_ready_request(url), timeout=SERVICE_TIMEOUT_SECONDS) as response:
            status = json.load(response)
    except (OSError, ValueError, urllib.error.URLError):
        advice = "read its log; if it hangs, kill and restart it: nothing is lost"
        yield warning("service", f"{url} does not answer from here", advice)
        return
    found = f"{url} is {status.get('status')}"
    if "threads" in status:  # only with a token, if the service has tokens
        found += f", version {status.get('version')}, {status['threads']} threads"
    if status.get("waiting"):
        advice = "fix the cause; the service then continues by itself"
        yield warning("service", f"{found}: {status['waiting']}", advice)
    else:
        yield ok("service", found)


def check_ledger(folder: DataFolder) -> Iterator[Check]:
    """Check that the ledger is readable and knows all stored sweeps."""
    if not folder.has_ledger():
        unknown = _unknown_sweeps(folder, set())
        if unknown:
            yield _warn_of_unknown(unknown)
        return
    try:
        with closing(folder.ledger()) as ledger:
            sweeps = ledger.sweeps()
    except TooNew as error:
        yield wrong("ledger", str(error), "install the version that wrote it, or a later one")
        return
    except Damaged as error:
        yield wrong(
            "ledger", str(error), "no results are lost: sweep doctor --rebuild restores all but the history"
        )
        return
    states = [
        f"{number} {state}" for state in State if (number := sum(sweep.state is state for sweep in sweeps))
    ]
    unknown = _unknown_sweeps(folder, {sweep.id for sweep in sweeps})
    if unknown:
        yield _warn_of_unknown(unknown)
    yield ok("ledger", f"{len(sweeps)} sweeps{': ' if states else ''}{', '.join(states)}")


def _unknown_sweeps(folder: DataFolder, known: set[str]) -> list[str]:
    """List the ids of stored sweeps that are not in the ledger."""
    from sweep_service.execution.conductor import SWEEP_ID_PATTERN

    try:
        names = {name.partition(".")[0] for name in folder.objects.list_top()}
    except (OSError, SweepError):  # reported by check_store
        return []
    return sorted(name for name in names - known if SWEEP_ID_PATTERN.fullmatch(name))


def _warn_of_unknown(names: list[str]) -> Check:
    ids = f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"
    return warning("sweeps", f"not in the ledger: {ids}", "add them with sweep doctor --rebuild")
