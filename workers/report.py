"""A report on the cluster of a scheduler: worker checks, versions and clocks. No worker is closed."""

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
from sweep_service.workers.cluster import Remote, explain_failure
from sweep_service.workers.worker_check import worker_requirements
from sweep_service.workers.worker_side import (
    REFUSAL_TOPIC,
    check_worker,
    installed_versions,
    pickle_by_value,
    read_clock,
    run_in_thread,
)

ANSWER_TIMEOUT_SECONDS = 60.0  # for all workers, which may first have to import the package
PROTOCOL_PACKAGES = ("dask", "distributed", "cloudpickle", "msgpack")  # versions must agree everywhere
NUMERICAL_PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "zarr")  # on workers, for equal numbers
PACKAGES = (*PROTOCOL_PACKAGES, *NUMERICAL_PACKAGES)
MAX_CLOCK_SKEW_SECONDS = 1.0
MAX_NAMES_SHOWN = 3
LOOPBACK = ("127.0.0.1", "localhost", "::1")

Answers = dict[str, Any]  # by worker; an exception if the worker could not answer


def report(address: str, folder: DataFolder) -> dict[str, Any]:
    """Check a scheduler and all its workers."""
    try:
        client = Remote(address).connect()
    except InvalidInput as error:  # the address contradicts the TLS settings
        return _failure(str(error), "run `sweep certificates FOLDER` and set DASK_CONFIG=FOLDER")
    except (OSError, RuntimeError) as error:
        port = urlsplit(address).port or 8786
        advice = f"start it with `dask scheduler --port {port}`, or check the firewall"
        return _failure(f"no answer from {address}{explain_failure(error)}", advice)
    with closing(client):
        answers = _ask_workers(client, run_in_thread(check_worker), _requirements(folder))
        versions = _ask_workers(client, pickle_by_value(installed_versions), PACKAGES)
        reasons = {worker: str(reason) for worker, reason in answers.items() if reason}
        events = [content for _, content in client.get_events(REFUSAL_TOPIC)]
        gone = [refusal for refusal in events if refusal["worker"] not in answers]
        refused = [{"worker": worker, "why": reason} for worker, reason in reasons.items()] + gone
        checks = [
            _check_scheduler(address, client),
            _check_workers(address, client, answers, reasons),
            *_check_refusals(gone),
            *_check_versions(_ask_scheduler(client, installed_versions, PACKAGES), versions),
            _check_clocks(client),
        ]
    accepted = sorted(worker for worker in answers if worker not in reasons)
    return {"scheduler": address, "workers": accepted, "refused": refused, "checks": checks}


def _failure(message: str, advice: str) -> dict[str, Any]:
    check = wrong("scheduler", message, advice)
    return {"scheduler": message, "workers": [], "refused": [], "checks": [check]}


def _requirements(folder: DataFolder) -> dict[str, Any]:
    """Return the requirements of the folder, with the nonce of the service that holds it, if one does."""
    try:
        with folder.lock():
            return worker_requirements(folder)
    except InUse:
        return worker_requirements(folder, fresh=False)


def _ask_workers(client: Client, function: Callable[..., Any], *arguments: Any) -> Answers:
    """Call a function on all workers; empty if there is no answer in time."""
    return _call_with_timeout(lambda: client.run(function, *arguments, on_error="return")) or {}


def _ask_scheduler(client: Client, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on the scheduler; None if it is not allowed or fails."""
    return _call_with_timeout(lambda: client.run_on_scheduler(pickle_by_value(function), *arguments))


def _call_with_timeout(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or None if it fails or takes too long."""
    answer: Future[Any] = Future()

    def resolve() -> None:
        try:
            answer.set_result(call())
        except Exception:  # the connection was lost, or it is not allowed
            answer.set_result(None)

    threading.Thread(target=resolve, daemon=True).start()
    try:
        return answer.result(ANSWER_TIMEOUT_SECONDS)
    except TimeoutError:
        return None


def _check_scheduler(address: str, client: Client) -> Check:
    began = clock.perf_counter()
    threads = client.nthreads()
    milliseconds = 1000 * (clock.perf_counter() - began)
    size = f"{len(threads)} workers, {sum(threads.values())} threads"
    summary = f"{address}: {size}, answers in {milliseconds:.0f} ms"
    if address.startswith("tls") or urlsplit(address).hostname in LOOPBACK:
        return ok("scheduler", summary)
    advice = "anyone who reaches its port can run code: use `sweep certificates` or a private network"
    return warning("scheduler", f"{summary}, without TLS", advice)


def _check_workers(address: str, client: Client, answers: Answers, reasons: Mapping[str, str]) -> Check:
    workers = client.nthreads()
    silent = [worker for worker in workers if worker not in answers]
    if not workers:
        advice = f"start `dask worker {address} --nthreads 1 --nworkers auto` with this package and folder"
        return wrong("workers", "none", advice)
    if reasons:
        advice = "install this version on the workers, and mount the folder at the same path"
        frequent = Counter(reasons.values()).most_common(MAX_NAMES_SHOWN)
        refused = "; ".join(f"{count} refused: {reason}" for reason, count in frequent)
        accepted = len(answers) - len(reasons)
        if accepted:
            return warning("workers", f"{accepted} accepted, {refused}", advice)
        return wrong("workers", refused, advice)
    if silent:
        summary = f"{len(silent)} of {len(workers)} do not answer: {_shorten(silent)}"
        return warning("workers", summary, "read their logs; Dask drops them after two minutes")
    return ok("workers", f"{len(answers)} accepted: they read the folder and have the same versions")


def _check_refusals(gone: list[dict[str, Any]]) -> list[Check]:
    if not gone:
        return []
    summary = f"{len(gone)} were closed, the last because {gone[-1]['why']}"
    return [warning("refused", summary, "correct this and start them again")]


def _check_versions(scheduler: Mapping[str, str] | None, workers: Answers) -> list[Check]:
    """Compare the versions of packages here, on the scheduler and on the workers."""
    local, checks = installed_versions(PACKAGES), []
    on_workers = {worker: answer for worker, answer in workers.items() if isinstance(answer, Mapping)}
    everywhere = {**on_workers, **({"the scheduler": scheduler} if scheduler else {})}
    if not everywhere:
        return []
    for names, processes, advice in (
        (
            ("python", *PROTOCOL_PACKAGES),
            everywhere,
            "install the same version to exchange messages",
        ),
        (NUMERICAL_PACKAGES, on_workers, "install requirements.lock: last digits of numbers may differ"),
    ):
        for name in names:
            different = [
                process
                for process, versions in processes.items()
                if _relevant_version(name, versions) != _relevant_version(name, local)
            ]
            if different:
                other = processes[different[0]][name] or "missing"
                summary = f"{name} is {local[name]} here, {other} at {_shorten(different)}"
                checks.append(warning("versions", summary, advice))
    return checks or [ok("versions", f"{len(local)} packages agree with {len(everywhere)} other processes")]


def _relevant_version(name: str, versions: Mapping[str, str]) -> str:
    """Return a version, of Python only major and minor, because pickled code is compatible within these."""
    version = versions.get(name, "")
    return ".".join(version.split(".")[:2]) if name == "python" else version


def _check_clocks(client: Client) -> Check:
    """Compare clocks. Only a time before the question or after the answer counts as skew."""
    began = clock.time()
    answers = {
        **_ask_workers(client, pickle_by_value(read_clock)),
        "the scheduler": _ask_scheduler(client, read_clock),
    }
    ended = clock.time()
    times = {process: time for process, time in answers.items() if isinstance(time, float)}
    skews = {process: max(time - ended, began - time, 0.0) for process, time in times.items()}
    large = {process: skew for process, skew in skews.items() if skew > MAX_CLOCK_SKEW_SECONDS}
    if large:
        worst = max(large, key=lambda process: large[process])
        summary = f"{len(large)} of {len(times)} differ from this machine, {worst} by {large[worst]:.0f} s"
        advice = "start chrony or systemd-timesyncd: certificates and logs need correct clocks"
        return warning("clocks", summary, advice)
    precision = max(MAX_CLOCK_SKEW_SECONDS, ended - began)
    return ok("clocks", f"{len(times)} agree within {precision:.1f} s")


def _shorten(names: list[str]) -> str:
    """Join names by commas, only the first few of a long list."""
    rest = len(names) - MAX_NAMES_SHOWN
    return ", ".join(names[:MAX_NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
