"""How the cluster of a scheduler is: who is fit, whose versions and clocks differ. Nobody is sent away."""

from __future__ import annotations

import threading
import time as clock
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from distributed import Client

from sweep_service.doctor.checks.verdict import Check, ok, warning, wrong
from sweep_service.errors import InUse, InvalidInput
from sweep_service.store.folder import DataFolder
from sweep_service.workers.cluster import Remote, refusal
from sweep_service.workers.worker_check import passport
from sweep_service.workers.worker_side import UNFIT, installed, now, shipped, unfit, unhurried

PATIENCE = 60.0  # seconds in which workers import what they need, and show what they are asked for
SPEAK = ("dask", "distributed", "cloudpickle", "msgpack")  # what all must have to understand each other
COMPUTE = ("numpy", "scipy", "numba", "llvmlite", "zarr")  # what workers must have for the same numbers
SKEW = 1.0  # seconds by which clocks may differ
FEW = 3  # of many are named
LOOPBACK = ("127.0.0.1", "localhost", "::1")

Answers = dict[str, Any]  # by worker; an exception of one that could not answer


def report(address: str, folder: DataFolder) -> dict[str, Any]:
    """Ask the scheduler, and every worker to show that it is fit."""
    try:
        client = Remote(address).connect()
    except InvalidInput as error:  # what Dask is told of certificates does not fit
        return _nobody(str(error), "sweep certificates FOLDER makes them, DASK_CONFIG=FOLDER names them")
    except (OSError, RuntimeError) as error:
        advice = (
            f"start it: dask scheduler --port {urlsplit(address).port or 8786}; or is a firewall between?"
        )
        return _nobody(f"nobody answers at {address}{refusal(error)}", advice)
    with closing(client):
        shown = _passport(folder)
        answers = _asked(client, unhurried(unfit), shown)
        versions = _asked(client, shipped(installed), (*SPEAK, *COMPUTE))
        reasons = {one: str(why) for one, why in answers.items() if why}
        gone = [told for _, told in client.get_events(UNFIT) if told["worker"] not in answers]
        refused = [{"worker": one, "why": why} for one, why in reasons.items()] + gone
        checks = [
            _scheduler(address, client),
            _workers(address, client, answers, reasons),
            *_refused(gone),
            *_versions(_of_scheduler(client, installed, (*SPEAK, *COMPUTE)), versions),
            _clocks(client),
        ]
    fit = sorted(one for one in answers if one not in reasons)
    return {"scheduler": address, "workers": fit, "refused": refused, "checks": checks}


def _nobody(told: str, advice: str) -> dict[str, Any]:
    return {"scheduler": told, "workers": [], "refused": [], "checks": [wrong("scheduler", told, advice)]}


def _passport(folder: DataFolder) -> dict[str, Any]:
    """A service goes on asking for its own number."""
    try:
        with folder.lock():
            return passport(folder)
    except InUse:
        return passport(folder, fresh=False)


def _asked(client: Client, function: Callable[..., Any], *arguments: Any) -> Answers:
    """All workers; one that is stuck keeps nobody waiting for longer than our patience."""
    return _patient(lambda: client.run(function, *arguments, on_error="return")) or {}


def _of_scheduler(client: Client, function: Callable[..., Any], *arguments: Any) -> Any:
    """Nothing, if it may not or cannot say."""
    return _patient(lambda: client.run_on_scheduler(shipped(function), *arguments))


def _patient(ask: Callable[[], Any]) -> Any:
    answer: Future[Any] = Future()

    def settle() -> None:
        try:
            answer.set_result(ask())
        except Exception:  # the connection was lost, or it is not allowed: there is no answer
            answer.set_result(None)

    threading.Thread(target=settle, daemon=True).start()
    try:
        return answer.result(PATIENCE)
    except TimeoutError:
        return None


def _scheduler(address: str, client: Client) -> Check:
    began = clock.perf_counter()
    there = client.nthreads()
    time = 1000 * (clock.perf_counter() - began)
    found = f"{address}: {len(there)} workers, {sum(there.values())} threads, answers in {time:.0f} ms"
    if address.startswith("tls") or urlsplit(address).hostname in LOOPBACK:
        return ok("scheduler", found)
    advice = "who reaches its port can run code: sweep certificates, or a network of its own"
    return warning("scheduler", f"{found}, without TLS", advice)


def _workers(address: str, client: Client, answers: Answers, reasons: Mapping[str, str]) -> Check:
    there = client.nthreads()
    silent = [one for one in there if one not in answers]
    if not there:
        advice = f"dask worker {address} --nthreads 1 --nworkers auto, with this package and this folder"
        return wrong("workers", "none", advice)
    same = (
        "install this version there, and mount the folder at the same path; else the service sends them away"
    )
    if reasons:
        told = "; ".join(
            f"{number} unfit: {why}" for why, number in Counter(reasons.values()).most_common(FEW)
        )
        fit = len(answers) - len(reasons)
        return warning("workers", f"{fit} fit, {told}", same) if fit else wrong("workers", told, same)
    if silent:
        found = f"{len(silent)} of {len(there)} do not answer: {_few(silent)}"
        return warning("workers", found, "look at their logs; Dask gives them up after two minutes")
    return ok("workers", f"{len(answers)} fit: they read the folder, and have our versions of everything")


def _refused(gone: list[dict[str, Any]]) -> list[Check]:
    if not gone:
        return []
    last = f"{len(gone)} had to leave, the last because {gone[-1]['why']}"
    return [warning("refused", last, "mend that and start them again: who is fit is taken")]


def _versions(scheduler: Mapping[str, str] | None, workers: Answers) -> list[Check]:
    """Who speaks or computes in another way than we do."""
    mine, found = installed((*SPEAK, *COMPUTE)), []
    others = {one: told for one, told in workers.items() if isinstance(told, Mapping)}
    everybody = {**others, **({"the scheduler": scheduler} if scheduler else {})}
    if not everybody:
        return []
    for names, who, advice in (
        (("python", *SPEAK), everybody, "install the same there: they may not understand each other"),
        (COMPUTE, others, "install requirements.lock there: numbers may differ in their last digits"),
    ):
        for name in names:
            other = [one for one, told in who.items() if _short(name, told) != _short(name, mine)]
            if other:
                told = f"{name} is {mine[name]} here, {who[other[0]][name] or 'missing'} at {_few(other)}"
                found.append(warning("versions", told, advice))
    same = f"the same of {len(mine)} packages here and at {len(everybody)} others"
    return found or [ok("versions", same)]


def _short(name: str, told: Mapping[str, str]) -> str:
    """Of Python the first two numbers count: code that is sent is of one of them."""
    version = told.get(name, "")
    return ".".join(version.split(".")[:2]) if name == "python" else version


def _clocks(client: Client) -> Check:
    """Skew is what the time of a question and of its answer leave no other reason for."""
    began = clock.time()
    there = {**_asked(client, shipped(now)), "the scheduler": _of_scheduler(client, now)}
    ended = clock.time()
    told = {one: time for one, time in there.items() if isinstance(time, float)}
    skew = {one: max(time - ended, began - time, 0.0) for one, time in told.items()}
    off = {one: seconds for one, seconds in skew.items() if seconds > SKEW}
    if off:
        far = max(off, key=lambda one: off[one])
        found = f"{len(off)} of {len(told)} differ from ours, {far} by {off[far]:.0f} s"
        return warning(
            "clocks", found, "start chrony or systemd-timesyncd: certificates and logs need the time"
        )
    return ok("clocks", f"{len(told)} within {max(SKEW, ended - began):.1f} s of ours")


def _few(names: list[str]) -> str:
    return ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")
