"""`make demo`: start a service, compute a sweep and draw it.

The demo starts `sweep serve` on a free port, submits a small phase diagram by REST, follows it, opens the
Zarr store over HTTP with xarray, and draws where gradient flow stops describing SGD.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import sweep_service as ss
from sweep_service.presets import read_preset

if TYPE_CHECKING:
    import xarray as xr

    from sweep_service.client.sweep import Sweep

OUTPUT = Path("demo-output")
PRESET = "phase-diagram"
SHUTDOWN_TIMEOUT_SECONDS = 30.0
LEARNING_RATES = (0.05, 5.0)  # of the curves: both regimes hold at the first, only one at the second


@contextmanager
def service(data: Path, output: Path) -> Iterator[str]:
    """Run a service that logs to `output`; yields its address, which may not answer yet."""
    command = [sys.executable, "-m", "sweep_service.cli", "serve", "--port", "0", "--data", str(data)]
    with open(output, "wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        address = re.search(r"http://\S+:\d+", process.stdout.readline())
        if address is None:
            raise SystemExit(output.read_text("utf-8"))
        yield address[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SHUTDOWN_TIMEOUT_SECONDS)


def main() -> None:
    """Run the demo."""
    data = OUTPUT / "data"
    shutil.rmtree(data, ignore_errors=True)  # a stored sweep would not be computed again
    OUTPUT.mkdir(exist_ok=True)
    log = OUTPUT / "service.log"
    with service(data, log) as url, ss.Client(url) as client:
        print(f"service    {url}    (the Dask dashboard: {url}/dask/status)")
        spec = read_preset(PRESET)
        cost = client.estimate(spec)
        print(f"estimate   {cost['runs']} runs at {cost['points']} points, {cost['core_seconds']:.0f} core-s")
        sweep = client.submit(spec)
        print(f"submitted  {sweep['links']['self']}", flush=True)
        sweep = print_progress(client, sweep["id"])
        counts = ", ".join(f"{number} {status}" for status, number in sweep["counts"].items())
        print(f"{sweep['state']:<10} {counts}, {sweep['core_seconds']:.0f} core-s")
        dataset = client.open(sweep["id"]).load()  # over HTTP, as on any other machine
        path = draw(dataset, sweep["id"])
    print(f"figure     {path}")
    print(f"data       {data}/sweeps/{sweep['id']}.zarr")
    print(f"log        {log}")
    print(f"again      .venv/bin/sweep serve --data {data}")
    if sweep["state"] != "completed":
        raise SystemExit(1)


def print_progress(client: ss.Client, sweep_id: str) -> Sweep:
    """Follow a sweep to its end, with a line for every fifth of it; returns the sweep."""
    printed, sweep = 0, client.sweep(sweep_id)
    for sweep in client.follow(sweep_id):
        fifths = int(5 * sweep["progress"])
        if fifths > printed:
            left = f", {sweep['eta_seconds']:.0f} s left" if sweep["eta_seconds"] else ""
            print(f"{sweep['state']:<10} {sweep['progress']:.0%} of the predicted cost{left}", flush=True)
            printed = fifths
    return sweep


def draw(dataset: xr.Dataset, sweep_id: str) -> Path:
    """Draw the final risk of SGD over (gamma, p), its discrepancy from gradient flow, and two points."""
    from sweep_service.analysis.plots import style
    from sweep_service.analysis.plots.save import caption, save

    with style.use_style():
        figure = style.new_figure(10.0, 3.3)
        risk, discrepancy, curves = figure.subplots(1, 3)
        dataset.sweep.plot_phase_diagram("gamma", "p", "sgd_risk", ax=risk)
        options = {"value": "relative_discrepancy", "regime": "classical_noise"}
        dataset.sweep.plot_phase_diagram("gamma", "p", **options, ax=discrepancy)
        dataset.sweep.plot_curves(p=2, gamma=LEARNING_RATES, ax=curves)
    path = OUTPUT / "phase-diagram.png"
    save(figure, path, dataset=dataset, caption=caption(dataset, sweep_id), sweep_id=sweep_id)
    return path


if __name__ == "__main__":
    main()
