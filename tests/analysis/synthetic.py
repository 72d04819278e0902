"""Synthetic datasets with known curves, in the layout of a stored sweep."""

import inspect
import json

import numpy as np
import xarray as xr

from sweep_service.model.labels import variable_attributes
from sweep_service.status import Status

TIMES = np.concatenate([[0.0], np.logspace(-3, 2, 61)])  # twelve samples per decade


def make_dataset(
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
    """A dataset of SGD and of the theories in `regimes`, with the risk `curve(time, …)` at each point.

    `curve` takes the time, and by name the axes, fixed parameters and `regime` (None for SGD) that it needs.
    `axes` are the dimensions of a product, or columns along `point`. SGD is multiplied by exp(scatter z),
    z ~ N(0, 1) at each sample. `observables` are further curves, without scatter. `status` broadcasts with
    (…points, seed, repeat): a pending run has no values, a diverged one the first half of them. Other
    keywords are `init` or fixed parameters.
    """
    init = fixed.pop("init", {"kind": "informed"})
    fixed = {"d": 100, "p": 4, "gamma": 0.5, "k": 2, "noise": 0.0, "activation": "erf"} | fixed
    axes = {name: np.asarray(values) for name, values in (axes or {}).items()}
    if not points:
        axes = {name: axes.get(name, np.array([fixed[name]])) for name in ("d", "p", "gamma")} | axes
    sizes = {"point": len(next(iter(axes.values())))} if points else {n: len(v) for n, v in axes.items()}
    grids = axes.values() if points else np.meshgrid(*axes.values(), indexing="ij")
    columns = {name: values.reshape(-1) for name, values in zip(axes, grids, strict=True)}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    constants = {name: value for name, value in fixed.items() if name not in axes}
    draws, random = (seeds, repeats), np.random.default_rng(rng)

    def sampled(function, regime=None):
        parameters = inspect.signature(function).parameters
        at = [{**constants, **row, "regime": regime} for row in rows]
        arguments = [{name: values_at[name] for name in parameters if name in values_at} for values_at in at]
        values = np.stack([function(times, **values) + 0.0 * times for values in arguments])
        return values.reshape(*sizes.values(), 1, len(times))

    variables = {}
    for name, function in {"risk": curve, **(observables or {})}.items():
        shape = (*sizes.values(), *draws, len(times))
        values = np.broadcast_to(sampled(function)[..., None, :], shape).copy()
        if name == "risk" and scatter:
            values *= np.exp(scatter * random.standard_normal(shape))
        variables[f"sgd_{name}"] = ((*sizes, "seed", "repeat", "time"), values)
        if regimes:
            theory = np.stack([sampled(function, regime) for regime in regimes], axis=len(sizes))
            theory = np.repeat(theory, seeds, axis=-2)
            variables[f"ode_{name}"] = ((*sizes, "regime", "seed", "time"), theory)
    ended = np.broadcast_to(Status.DONE if status is None else status, (*sizes.values(), *draws))
    for name, (_, values) in variables.items():
        if name.startswith("sgd"):
            values[ended == Status.PENDING] = np.nan
            cut = np.broadcast_to((ended == Status.DIVERGED)[..., None], values.shape).copy()
            cut[..., : len(times) // 2] = False
            values[cut] = np.nan
    variables["sgd_status"] = ((*sizes, "seed", "repeat"), ended.astype("int8"))
    if regimes:
        shape = (*sizes.values(), len(regimes), seeds)
        variables["ode_status"] = ((*sizes, "regime", "seed"), np.full(shape, Status.DONE, "int8"))
    d, p, gamma = (
        columns[name] if name in columns else np.full(len(rows), constants[name])
        for name in ("d", "p", "gamma")
    )
    along = {
        name: ("point" if points else name, values, variable_attributes(name))
        for name, values in axes.items()
    }
    derived = {"delta_t": gamma / (p * d), "gamma_over_p": gamma / p}
    point_coords = {name: (tuple(sizes), values.reshape(*sizes.values())) for name, values in derived.items()}
    coords = along | point_coords | {"seed": np.arange(seeds), "repeat": np.arange(repeats), "time": times}
    if regimes:
        coords["regime"] = list(regimes)
    spec = {"axes": {}, "fixed": constants, "init": init}
    return xr.Dataset(variables, coords, attrs={"spec": json.dumps(spec, default=float)})


def add_fluctuations(dataset, std, shift=0.0, regime="high_dimensional"):
    """Stored fluctuations of a regime: functions of time, or numbers; NaN for other regimes, 0 at t = 0."""
    curves = {"risk_std": std, "risk_shift": shift}
    values = {
        name: xr.DataArray(value(dataset["time"]) if callable(value) else value)
        for name, value in curves.items()
    }
    values["nonlinearity"] = abs(values["risk_shift"]) / values["risk_std"]
    is_known = dataset["regime"] == regime
    moved = dataset["time"] > 0.0
    return dataset.assign(
        {
            f"ode_{name}": (0.0 * dataset["ode_risk"] + array.where(array.notnull(), np.nan))
            .where(moved, 0.0)
            .where(is_known)
            .transpose(*dataset["ode_risk"].dims)
            for name, array in values.items()
        }
    )


def time_average(values, times, start):
    """∫ dt over [start, t_max] of the lines between samples (…, time), over the length."""
    values = np.asarray(values)
    rows = values.reshape(-1, values.shape[-1])
    knots = np.concatenate([[start], times[times > start]])
    integrals = [np.trapezoid(np.interp(knots, times, row), knots) for row in rows]
    return np.reshape(integrals, values.shape[:-1]) / (times[-1] - start)


def assert_described(variables):
    """Check that every variable has a long name, and no unit, as all are dimensionless."""
    for name, variable in variables.data_vars.items():
        assert variable.attrs["long_name"], name
        assert "units" not in variable.attrs, name
