"""Stored sweeps whose answer is known: curves written down, in the form that a sweep leaves."""

import inspect
import json

import numpy as np
import xarray as xr

from sweep_service.model.labels import about
from sweep_service.status import Status

TIMES = np.concatenate([[0.0], np.logspace(-3, 2, 61)])  # twelve samples in a decade


def made(
    curve,
    axes=None,
    *,
    points=False,
    times=TIMES,
    seeds=1,
    repeats=1,
    regimes=(),
    status=None,
    scatter=0.0,
    observables=None,
    rng=0,
    **fixed,
):
    """SGD, and the theories where `regimes` has some, whose risk at each point is `curve(time, …)`.

    `curve` takes the time and by their names what it needs of the axes, of `fixed` and of `regime`
    (None for SGD). `axes` are the dimensions of a product, or columns along `point`. A run of SGD is
    multiplied by exp(scatter z), z ~ N(0, 1) at each sample. `observables` are further curves, without
    scatter. `status` broadcasts with (…points, seed, repeat): of a pending run nothing is there, of a
    diverged one the first half of its samples. Other keywords are `init`, or parameters that are
    everywhere the same.
    """
    init = fixed.pop("init", {"kind": "informed"})
    fixed = {"d": 100, "p": 4, "gamma": 0.5, "k": 2, "noise": 0.0, "activation": "erf"} | fixed
    axes = {name: np.asarray(values) for name, values in (axes or {}).items()}
    if not points:
        axes = {name: axes.get(name, np.array([fixed[name]])) for name in ("d", "p", "gamma")} | axes
    sizes = {"point": len(next(iter(axes.values())))} if points else {n: len(v) for n, v in axes.items()}
    everywhere = axes.values() if points else np.meshgrid(*axes.values(), indexing="ij")
    columns = {name: values.reshape(-1) for name, values in zip(axes, everywhere, strict=True)}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    known = {name: value for name, value in fixed.items() if name not in axes}
    draws, random = (seeds, repeats), np.random.default_rng(rng)

    def sampled(function, regime=None):
        wanted = inspect.signature(function).parameters
        at = [{**known, **row, "regime": regime} for row in rows]
        given = [{name: one[name] for name in wanted if name in one} for one in at]
        values = np.stack([function(times, **some) + 0.0 * times for some in given])
        return values.reshape(*sizes.values(), 1, len(times))

    found = {}
    for name, function in {"risk": curve, **(observables or {})}.items():
        shape = (*sizes.values(), *draws, len(times))
        values = np.broadcast_to(sampled(function)[..., None, :], shape).copy()
        if name == "risk" and scatter:
            values *= np.exp(scatter * random.standard_normal(shape))
        found[f"sgd_{name}"] = ((*sizes, "seed", "repeat", "time"), values)
        if regimes:
            each = np.stack([sampled(function, regime) for regime in regimes], axis=len(sizes))
            each = np.repeat(each, seeds, axis=-2)
            found[f"ode_{name}"] = ((*sizes, "regime", "seed", "time"), each)
    ended = np.broadcast_to(Status.DONE if status is None else status, (*sizes.values(), *draws))
    for name, (_, values) in found.items():
        if name.startswith("sgd"):
            values[ended == Status.PENDING] = np.nan
            cut = np.broadcast_to((ended == Status.DIVERGED)[..., None], values.shape).copy()
            cut[..., : len(times) // 2] = False
            values[cut] = np.nan
    found["sgd_status"] = ((*sizes, "seed", "repeat"), ended.astype("int8"))
    if regimes:
        shape = (*sizes.values(), len(regimes), seeds)
        found["ode_status"] = ((*sizes, "regime", "seed"), np.full(shape, Status.DONE, "int8"))
    d, p, gamma = (
        columns[name] if name in columns else np.full(len(rows), known[name]) for name in ("d", "p", "gamma")
    )
    along = {name: ("point" if points else name, values, about(name)) for name, values in axes.items()}
    derived = {"delta_t": gamma / (p * d), "gamma_over_p": gamma / p}
    place = {name: (tuple(sizes), values.reshape(*sizes.values())) for name, values in derived.items()}
    coords = along | place | {"seed": np.arange(seeds), "repeat": np.arange(repeats), "time": times}
    if regimes:
        coords["regime"] = list(regimes)
    spec = {"axes": {}, "fixed": known, "init": init}
    return xr.Dataset(found, coords, attrs={"spec": json.dumps(spec, default=float)})


def assert_described(found):
    """Every variable says what it is, and in which units."""
    for name, variable in found.data_vars.items():
        assert variable.attrs["long_name"], name
        assert variable.attrs["units"], name
