"""`make demo`: a service from its start to a figure, the way a person would use it.

It starts `sweep serve` on a free port, submits a small phase diagram by REST, follows it, opens the Zarr
store over HTTP with xarray, and draws where gradient flow stops describing SGD.
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
from typing import TYPE_CHECKING, Any

import sweep_service as ss
from sweep_service.presets import preset

if TYPE_CHECKING:
    import xarray as xr

OUTPUT = Path("demo-output")
PRESET = "phase-diagram"
LAST = 30.0  # seconds in which a service ends
ENDS = (0.05, 5.0)  # learning rates of the curves: where both theories hold, and where one does


@contextmanager
def service(data: Path, output: Path) -> Iterator[str]:
    """A service of our own, with its log in a file; its address, which may not answer yet."""
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
        process.communicate(timeout=LAST)


def main() -> None:
    data = OUTPUT / "data"
    shutil.rmtree(data, ignore_errors=True)  # what is there already would only be shown
    OUTPUT.mkdir(exist_ok=True)
    log = OUTPUT / "service.log"
    with service(data, log) as url, ss.Client(url) as client:
        print(f"service    {url}    (the Dask dashboard: {url}/dask/status)")
        spec = preset(PRESET)
        price = client.estimate(spec)
        print(
            f"estimate   {price['runs']} runs at {price['points']} points, {price['core_seconds']:.0f} core-s"
        )
        sweep = client.submit(spec)
        print(f"submitted  {sweep['links']['self']}", flush=True)
        ended = followed(client, sweep["id"])
        counts = ", ".join(f"{number} {status}" for status, number in ended["counts"].items())
        print(f"{ended['state']:<10} {counts}, {ended['core_seconds']:.0f} core-s")
        dataset = client.open(sweep["id"]).load()  # over HTTP, as from any other machine
        path = draw(dataset, sweep["id"])
    print(f"figure     {path}")
    print(f"data       {data}/sweeps/{sweep['id']}.zarr")
    print(f"log        {log}")
    print(f"again      .venv/bin/sweep serve --data {data}")
    if ended["state"] != "completed":
        raise SystemExit(1)


def followed(client: ss.Client, sweep: str) -> dict[str, Any]:
    """What became of it; every fifth of the way is told, as logs have no bars."""
    told, now = 0, client.sweep(sweep)
    for now in client.follow(sweep):
        fifth = int(5 * now["progress"])
        if fifth > told:
            left = f", {now['eta_seconds']:.0f} s left" if now["eta_seconds"] else ""
            print(f"{now['state']:<10} {now['progress']:.0%} of the predicted cost{left}", flush=True)
            told = fifth
    return now


def draw(dataset: xr.Dataset, id: str) -> Path:
    """The final risk of SGD over (gamma, p), how far gradient flow is from it, and two of the points."""
    from sweep_service.analysis.plots import style
    from sweep_service.analysis.plots.save import caption, save

    with style.style():
        figure = style.new_figure(10.0, 3.3)
        risk, apart, curves = figure.subplots(1, 3)
        dataset.sweep.plot_phase_diagram("gamma", "p", "sgd_risk", axes=risk)
        words = {"value": "relative_discrepancy", "regime": "classical_noise"}
        dataset.sweep.plot_phase_diagram("gamma", "p", **words, axes=apart)
        dataset.sweep.plot_curves(p=2, gamma=ENDS, axes=curves)
    path = OUTPUT / "phase-diagram.png"
    save(figure, path, dataset=dataset, caption=caption(dataset, id), id=id)
    return path


if __name__ == "__main__":
    main()
