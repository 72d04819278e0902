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

import numpy as np

import sweep_service as ss
from sweep_service.presets import preset

if TYPE_CHECKING:
    import xarray as xr

OUTPUT = Path("demo-output")
PRESET = "phase-diagram"
LAST = 30.0  # seconds in which a service ends
STYLES = {"high_dimensional": ("#0072B2", "-"), "classical_noise": ("#D55E00", "--")}
CORNERS = ((16, 0.05), (2, 5.0))  # (p, gamma) of the curves: where both theories hold, and where one does


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
        path = draw(dataset)
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


def draw(dataset: xr.Dataset) -> Path:
    """The final risk of SGD over (gamma, p), how far a theory is from it there, and two of the points."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.4), layout="constrained")
    late = dataset.isel(d=0).sel(time=slice(float(dataset.time[-1]) / 2, None)).mean("time")
    sgd = late.sgd_risk.mean(["seed", "repeat"])
    theory = late.ode_risk.mean("seed").sel(regime="classical_noise")
    _map(figure, axes[0], np.log10(sgd), "log₁₀ of the final risk of SGD", "viridis")
    error = np.abs(np.log10(sgd / theory))
    _map(figure, axes[1], error, "|log₁₀ SGD / gradient flow with noise|", "magma_r")
    for (p, gamma), shade in zip(CORNERS, ("0.1", "0.55"), strict=True):
        here = dataset.isel(d=0, time=slice(1, None)).sel(p=p).sel(gamma=gamma, method="nearest")
        runs = here.sgd_risk.stack(run=("seed", "repeat"))
        axes[2].fill_between(here.time, *runs.quantile([0.16, 0.84], "run"), color=shade, alpha=0.25, lw=0)
        axes[2].loglog(
            here.time,
            runs.mean("run"),
            "o",
            ms=3,
            mfc="none",
            mec=shade,
            label=f"SGD, p = {p}, γ = {gamma:g}",
        )
        for regime, (colour, line) in STYLES.items():
            label = regime.replace("_", " ") if shade == "0.1" else None
            mean = here.ode_risk.sel(regime=regime).mean("seed")
            axes[2].loglog(here.time, mean, line, color=colour, lw=1.4, label=label)
    axes[2].set(xlabel="time  t = ν γ/(p d)", ylabel="excess risk  R", title="at two corners")
    axes[2].title.set_fontsize(9)
    marks, labels = axes[2].get_legend_handles_labels()
    order = np.argsort([not label.startswith("SGD") for label in labels], kind="stable")
    axes[2].legend([marks[at] for at in order], [labels[at] for at in order], frameon=False, fontsize=8)
    path = OUTPUT / "phase-diagram.png"
    figure.savefig(path, dpi=160, metadata={"Software": f"sweep-service {ss.__version__}"})
    return path


def _map(figure: Any, axis: Any, values: xr.DataArray, title: str, colours: str) -> None:
    """On logarithmic axes, with the numbers themselves for who would read them off."""
    gamma, p = np.log10(values.gamma.values), np.log2(values.p.values)
    image = axis.pcolormesh(gamma, p, values.transpose("p", "gamma"), cmap=colours, shading="nearest")
    axis.set_yticks(p, [f"{n}" for n in values.p.values])
    axis.set_xticks(gamma[::2], [f"{x:.2g}" for x in values.gamma.values[::2]])
    axis.set(xlabel="learning rate  γ", ylabel="student width  p")
    axis.set_title(title, fontsize=9)
    figure.colorbar(image, ax=axis, shrink=0.9)


if __name__ == "__main__":
    main()
