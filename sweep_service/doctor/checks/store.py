"""The store: does it keep what it is given, who has it, and what is in its ledger?"""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
import time as clock
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

from sweep_service.doctor.checks.verdict import Check, ok, warning, why, wrong
from sweep_service.errors import Damaged, InUse, SweepError, TooNew
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State

ROUNDS = 5
CREATORS = 8
SLOW = 0.5  # seconds to write and read a few bytes


def store(folder: DataFolder) -> Iterator[Check]:
    """Write, read, list, delete, and create what only one of many may."""
    objects, stem, where = folder.objects, f"doctor-{uuid.uuid4().hex[:12]}", str(folder.root)
    names, seconds = [f"{stem}.{number}" for number in range(ROUNDS)], []
    try:
        for name in names:
            began = clock.perf_counter()
            objects.put(name, name.encode())
            if objects.get(name) != name.encode():
                yield wrong("store", f"{where} gave back other bytes than were written", REPLACE)
                return
            seconds.append(clock.perf_counter() - began)
        with ThreadPoolExecutor(CREATORS) as pool:
            won = list(pool.map(lambda one: objects.create(f"{stem}.one", b"%d" % one), range(CREATORS)))
        listed = set(objects.list(stem))
    except (OSError, SweepError) as error:
        yield wrong("store", f"{where}: {why(error)}", _mend(folder, error))
        return
    finally:
        for name in (*names, f"{stem}.one"):
            with suppress(OSError, SweepError):
                objects.delete(name)
    if listed != {*names, f"{stem}.one"}:
        yield wrong("store", f"{where} does not list what was just written", REPLACE)
    elif sum(won) != 1:
        yield wrong("store", f"{where} let {sum(won)} of {CREATORS} create the same object", REPLACE)
    elif set(objects.list(stem)):
        yield wrong("store", f"{where} keeps what was deleted", REPLACE)
    else:
        middle = sorted(seconds)[ROUNDS // 2]
        found = f"{where}: written and read in {1000 * middle:.1f} ms; one of {CREATORS} may create"
        advice = "sweeps wait for it: a nearer store, or a faster disk"
        yield warning("store", found, advice) if middle > SLOW else ok("store", found)


REPLACE = "nothing is safe there: use a local disk, or a server of S3 with conditional writes"


def _mend(folder: DataFolder, error: Exception) -> str:
    if not isinstance(folder.root, Path):
        return (
            "is the server up, and are AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and its secret right?"
        )
    if isinstance(error, PermissionError):
        return f"let this user write there: chown -R {os.getuid()} {folder.root}"
    return "name a folder that can be written: --data or SWEEP_DATA"


# Where a lock may be silently local, or a rename not atomic for other machines.
NETWORK = re.compile(r"nfs|cifs|smb|9p|sshfs|s3fs|gluster|ceph|lustre|beegfs|gpfs|afs|fuse\.")
FLEETING = {"tmpfs": "memory", "ramfs": "memory", "overlay": "a container"}


def file_systems(folder: DataFolder) -> Iterator[Check]:
    """What kind they are of, and whether locks lock there."""
    if isinstance(folder.root, Path) and folder.root.is_dir():
        yield _file_system("folder", folder.root)
        yield _locks(folder.root)
    if folder.state != folder.root and folder.state.is_dir():
        yield _file_system("state", folder.state)
    if NETWORK.search(kind_of(folder.state)):
        advice = "SWEEP_STATE names a folder on a disk of this machine for it"
        yield warning("ledger place", f"SQLite on {kind_of(folder.state)} may be damaged", advice)


def _file_system(name: str, path: Path) -> Check:
    kind = kind_of(path)
    found = f"{path.resolve()} on {kind or 'a file system of unknown kind'}"
    if NETWORK.search(kind):
        advice = "all machines must mount it with locks and without caches of names (nfs: noac or actimeo=1)"
        return warning(name, found, advice)
    if kind in FLEETING:
        return warning(name, f"{found}: gone with {FLEETING[kind]}", "use a disk, or a volume")
    return ok(name, found)


def kind_of(path: Path, mounts: str = "/proc/self/mountinfo") -> str:
    """Of the innermost mount that holds a path; nothing where the system does not say."""
    path = path.resolve()
    try:
        lines = Path(mounts).read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    found, best = "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4]))
        if (path == point or point in path.parents) and len(point.parts) >= best:
            found, best = after.split()[0], len(point.parts)
    return found


def _locks(root: Path) -> Check:
    with tempfile.NamedTemporaryFile(dir=root) as first, open(first.name, "rb") as second:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ok("locks", "who comes second is kept out")
    advice = "two services would both write: mount it with locks, or use another file system"
    return wrong("locks", f"{root} grants the same lock twice", advice)


ANSWER = 3.0  # seconds for a service


def holder(folder: DataFolder) -> Iterator[Check]:
    """Who has the folder, and if that is a service, how it is."""
    try:
        with folder.lock():
            yield ok("in use", "by nobody")
            return
    except InUse as error:
        told = str(error)
    except (OSError, SweepError):  # which the store has told
        return
    url = re.search(r"--url (\S+)", told)
    if url is None:
        yield ok("in use", told)
        return
    try:
        with urllib.request.urlopen(f"{url[1]}/readyz", timeout=ANSWER) as answer:
            about = json.load(answer)
    except (OSError, ValueError, urllib.error.URLError):
        advice = "look at its log; if it hangs, kill it and start it again: nothing is lost"
        yield warning("service", f"the one at {url[1]} does not answer from here", advice)
        return
    found = (
        f"{url[1]} is {about.get('status')}, version {about.get('version')}, {about.get('threads')} threads"
    )
    if about.get("waiting"):
        yield warning(
            "service", f"{found}: {about['waiting']}", "mend what it waits for; it goes on by itself"
        )
    else:
        yield ok("service", found)


def ledger(folder: DataFolder) -> Iterator[Check]:
    if not folder.has_ledger():
        unknown = _strangers(folder, set())
        if unknown:
            yield _unknown(unknown)
        return
    try:
        with closing(folder.ledger()) as found:
            sweeps = found.sweeps()
    except TooNew as error:
        yield wrong("ledger", str(error), "install the version that wrote it, or a later one")
        return
    except Damaged as error:
        yield wrong("ledger", str(error), "nothing is lost: what is stored says all but the history")
        return
    states = [f"{number} {state}" for state in State if (number := sum(one.state is state for one in sweeps))]
    unknown = _strangers(folder, {one.id for one in sweeps})
    if unknown:
        yield _unknown(unknown)
    yield ok("ledger", f"{len(sweeps)} sweeps{': ' if states else ''}{', '.join(states)}")


def _strangers(folder: DataFolder, known: set[str]) -> list[str]:
    from sweep_service.execution.conductor import IS_ID

    try:
        names = {name.partition(".")[0] for name in folder.objects.top()}
    except (OSError, SweepError):  # which the store has told
        return []
    return sorted(name for name in names - known if IS_ID.fullmatch(name))


def _unknown(names: list[str]) -> Check:
    some = f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"
    return warning("sweeps", f"not in the ledger: {some}", "sweep doctor --rebuild adopts them")
