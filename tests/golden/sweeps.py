"""Sweeps and a REST session through what is public alone: the command line, HTTP and stored files."""

import io
import json
import re
import tarfile
import time as clock
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np

import sweep_service as ss
from tests.api.served import serving
from tests.cli.commands import fork_server
from tests.golden.cases import digest

FOLDER = Path(__file__).with_name("data-folder.tar.xz")  # made by the commit that recorded the numbers
SPECS = {
    "product": {
        "name": "product",
        "axes": {
            "d": [6, 9],
            "p": [2, 3],
            "gamma": [0.1, 0.5],
            "regime": ["classical_noise", "high_dimensional", "mean_field", "auto"],
            "noise": [0.0, 1e-2],
        },
        "fixed": {"k": 2},
        "init": {"kind": "informed", "shared": True},
        "seeds": {"init": 2, "repeat": 2},
        "time": {"max": 2.0, "samples": 4},
        "observables": ["risk", "cosine", "overlaps"],
    },
    "triangle": {
        "name": "triangle",
        "axes": {"regime": ["classical_noise", "mean_field"]},
        "triangle": {"delta_t": 1e-2, "resolution": 3},
        "fixed": {"k": 2, "activation": "relu"},
        "seeds": 1,
        "time": {"max": 1.0, "samples": 3, "tail": 2},
        "regime_options": {"finite_d_factor": True},
    },
    "scaling": {
        "name": "scaling",
        "axes": {"d": [8, 16], "kappa": [0.0, 0.5], "delta": [0.0, 0.5], "regime": "classical"},
        "scaling": {"p0": 2, "gamma0": 0.5},
        "fixed": {"k": 1, "activation": "tanh", "teacher_activation": "erf"},
        "init": {"kind": "gaussian"},
        "time": {"max": 1.0, "samples": 3},
    },
    "zip": {
        "name": "zip",
        "axes": {"d": [5, 7], "gamma": [0.2, 0.1], "p": 3, "init.scale": [0.5, 1.0]},
        "zip": [["d", "gamma"]],
        "fixed": {"k": 2, "activation": "square"},
        "init": {"kind": "gaussian", "teacher": {"rho": 0.2}},
        "seeds": [4, 2],
        "time": {"max": 1.0, "samples": 3},
    },
    "points": {
        "name": "points",
        "axes": {"regime": "auto"},
        "points": [{"d": 6, "p": 2, "gamma": 0.1}, {"d": 8, "p": 4, "gamma": 0.3}],
        "fixed": {"k": 2, "noise": 1e-3},
        "init": {"kind": "spherical"},
        "simulate": False,
        "seeds": 2,
        "time": {"max": 1.0, "samples": 3},
    },
}
# In the kept folder these two are not complete: the first was killed when its first part was written, the
# second was interrupted in a run, of which there is a checkpoint.
KILLED = {
    "name": "killed",
    "axes": {"d": [5, 7], "p": 3, "gamma": 0.1, "regime": "classical_noise"},
    "fixed": {"k": 2},
    "init": {"kind": "informed"},
    "time": {"max": 1.0, "samples": 3},
}
INTERRUPTED = {
    "name": "interrupted",
    "axes": {"d": 200, "p": 8, "gamma": 0.05},
    "fixed": {"k": 2},
    "init": {"kind": "informed"},
    "time": {"max": 150.0, "samples": 4},
}
# attributes that the kept folder does not have
LATER = {"versions", "keys_sha256", "metadata_sha256", "notes", "Conventions"}
# variables that a sweep of the kept folder does not get when it is resumed
LATER_VARIABLES = ("sgd_diverged_quantity", "ode_diverged_quantity", "regime_code")
SECONDS = ("sgd_seconds", "ode_seconds")  # differ from run to run
VARIES = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")  # a sweep's id


def sweep(data, *argv, spec=None):
    """The JSON answer of a command."""
    cwd = Path(data).parent
    answer = fork_server().run(cwd, *argv, "--data", data, "--json", text=spec or "")
    assert answer.code == 0, answer.err
    return answer.json


def run(data, spec):
    return sweep(data, "run", "-", "--no-figure", spec=spec)


def stored(path):
    """All that is stored of a sweep, but for times on clocks."""
    path = Path(path)
    with np.load(io.BytesIO(path.with_suffix(".keys").read_bytes())) as keys:
        run_keys = digest({name: keys[name] for name in keys.files})
    with ss.open(path) as dataset:
        arrays = {str(name): dataset[name].values for name in dataset.variables if name not in SECONDS}
        return {
            "key": dataset.attrs["key"],
            "run_keys": run_keys,
            "attributes": sorted(set(dataset.attrs) - LATER),
            "dims": {str(name): [str(dim) for dim in dataset[name].dims] for name in dataset.variables},
            "sizes": {str(name): size for name, size in dataset.sizes.items()},
            "digests": {name: digest({name: array}) for name, array in arrays.items()},
        }


def unpacked(folder):
    """The data folder of the commit that recorded the numbers, under another path."""
    with tarfile.open(FOLDER) as archive:
        archive.extractall(folder, filter="data")
    return Path(folder) / "data"


class Session:
    """Asks a service, and keeps the status and the field names of every answer."""

    def __init__(self, url):
        self.url, self.answers = url, {}

    def ask(self, method, path, body=None, headers=None, keep=True):
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        headers = {"Content-Type": "application/json", **(headers or {})}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60.0) as response:
                status, content, kind = response.status, response.read(), response.headers["Content-Type"]
        except urllib.error.HTTPError as error:
            status, content, kind = error.code, error.read(), error.headers["Content-Type"]
        is_json = content and kind and kind.partition(";")[0].endswith("json")
        value = json.loads(content) if is_json else None
        if keep:
            name = f"{method} {VARIES.sub('ID', path)} {len(self.answers)}"
            self.answers[name] = {"status": status, "type": kind, "fields": sorted(set(fields(value)))}
        return value if value is not None else content

    def completed(self, sweep_id):
        end = clock.monotonic() + 60.0
        while self.ask("GET", f"/v1/sweeps/{sweep_id}", keep=False)["state"] != "completed":
            assert clock.monotonic() < end, "it never completed"
            clock.sleep(0.05)


def fields(value, prefix=""):
    """Names of an answer's fields, nested ones with dots; of a list those of its first item."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield f"{prefix}{name}"
            yield from fields(item, f"{prefix}{name}.")
    elif isinstance(value, list) and value:
        yield from fields(value[0], f"{prefix}[].")


def session(data):
    """What a small session gets: good requests, refused ones, every kind of answer."""
    spec = SPECS["product"]
    with serving(data) as service:
        on = Session(service.url)
        for path in ("/healthz", "/readyz", "/v1/presets", "/v1/catalogue", "/v1/cluster"):
            on.ask("GET", path)
        on.ask("POST", "/v1/estimate", spec)
        on.ask("POST", "/v1/spec", spec)
        on.ask("POST", "/v1/sweeps?dry_run=true", spec)
        sweep_id = on.ask("POST", "/v1/sweeps", spec, {"Idempotency-Key": "one"})["id"]
        on.completed(sweep_id)
        on.ask("POST", "/v1/sweeps", spec, {"Idempotency-Key": "one"})
        on.ask("POST", "/v1/sweeps", SPECS["zip"], {"Idempotency-Key": "one"})
        on.ask("POST", "/v1/sweeps", {**spec, "name": "again"})
        on.ask("GET", "/v1/sweeps?limit=1")
        root = f"/v1/sweeps/{sweep_id}"
        for part in ("", "/spec", "/failures", "/contents", "/map", "/data?format=json&regime=auto"):
            on.ask("GET", root + part)
        on.ask("GET", f"{root}/phase-diagram?x=gamma&y=p&value=sgd_risk&d=6&noise=0.01")
        on.ask("GET", f"{root}/curves?d=6&p=2&gamma=0.1&noise=0.01")
        for format in ("netcdf", "csv", "parquet"):
            on.ask("GET", f"{root}/data?format={format}")
        for part in ("curves?d=6&p=2&gamma=0.1&noise=0.01&format=svg", "zarr/zarr.json", "events"):
            on.ask("GET", f"{root}/{part}")
        for action in ("pause", "resume", "cancel", "retry"):
            on.ask("POST", f"{root}/{action}")
        child = on.ask("POST", f"{root}/extend", {"axes": {"gamma": [0.9]}})["id"]
        on.completed(child)
        on.ask("DELETE", f"/v1/sweeps/{child}")
        refused = [
            ("GET", "/v1/sweeps/20200101-000000-00000000", None),
            ("GET", "/v1/nothing", None),
            ("PUT", "/v1/sweeps", None),
            ("GET", "/v1/sweeps?limit=0", None),
            ("GET", f"{root}/phase-diagram?x=gamma&y=p&value=nothing", None),
            ("GET", f"{root}/data?format=nothing", None),
            ("POST", "/v1/sweeps", {**spec, "axes": {"d": -1}}),
            ("POST", "/v1/sweeps", {**spec, "wrong": 1}),
            ("POST", "/v1/sweeps", b"{"),
            ("POST", "/v1/session", {"token": "none"}),
        ]
        for method, path, body in refused:
            on.ask(method, path, body)
        on.ask("POST", "/v1/sweeps", b"x", {"Content-Type": "text/plain"})
        schema = on.ask("GET", "/openapi.json", keep=False)
        metrics = on.ask("GET", "/metrics", keep=False).decode()
    return {
        "answers": on.answers,
        "routes": sorted(f"{method} {path}" for path, item in schema["paths"].items() for method in item),
        "metrics": sorted(re.findall(r"^# TYPE (\S+)", metrics, re.MULTILINE)),
    }


def commands(folder):
    """Names of the commands that `sweep --help` lists."""
    answer = fork_server().run(folder, "--help")
    return sorted(re.findall(r"^│ ([a-z]+) ", answer.out, re.MULTILINE))
