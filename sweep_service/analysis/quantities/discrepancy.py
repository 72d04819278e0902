"""The distance between SGD and a theory, or between two theories, along whole trajectories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add

import numpy as np
import xarray as xr

from sweep_service.analysis.error_bars.z_score import z_scores
from sweep_service.analysis.quantities.line_fit import t_quantile
from sweep_service.analysis.quantities.step_times import (
    has_enough_steps,
    make_evaluation,
    select_positive_times,
)
from sweep_service.analysis.runs import (
    DRAW_DIMS,
    average_over_runs,
    average_with_deviations,
    count_draws,
    error_from_deviations,
    has_diverged,
    initial_risk,
    parameter,
    parse_source,
    read_runs,
)
from sweep_service.analysis.statistics import build_dataset
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.planning.schema import KIND_TITLES

KINDS = ("fluctuation", "bias", "z")
QUANTITIES = ("risk", "overlaps")
# M, Q and q; mean-field regimes have q in place of Q.
MATRICES = ("overlap_student_teacher", "overlap_student", "orthogonal_norm")
NEURON_DIMS = ("student", "student_other", "teacher")
ENTRY, DRAW = "entry", "draw"
SINGLE_POINT_FUNCTIONS = {"sgd": "ss.simulate", "ode": "ss.integrate"}
NULL_TRIALS = 256  # of random signs: their mean maximum is known to some 3 %


def discrepancy(
    dataset: xr.Dataset,
    /,
    a: str = "sgd",
    b: str = "ode",
    of: str = "risk",
    kind: str = "fluctuation",
    over: str | None = None,
) -> xr.Dataset:
    """Measure the largest distance over time between two sources.

    Parameters
    ----------
    a, b
        Sources: `sgd` (only `a`), the name of a regime, or `ode` for all regimes.
    of
        `risk`, or `overlaps` for the largest entry of M and Q.
    kind
        `fluctuation`: the mean over runs of max_t |X_s - X°_s|, which falls as √δt. `bias`: max_t of the
        mean difference (of overlaps, in the entry where it is largest), which falls faster. A maximum of
        noisy means is positive even if the truth is 0: compare it with `null_level`. `z`: as a fluctuation,
        but of the risk of SGD in units of the standard deviation that `high_dimensional` predicts.
    over
        `time` for the distance at each time instead of the largest.

    Returns
    -------
    xr.Dataset
        At each point `discrepancy`, `standard_error`, the ratios `over_sqrt_delta_t` and
        `over_initial_risk` (NaN if t = 0 is not selected; none for `z`), and the number of `runs`. For a
        fluctuation and for `z` also the 95 % interval `low`, `high`; for a bias the `null_level`, the value
        to be expected from the scatter of the draws if there is no bias.

    Raises
    ------
    InvalidInput
        If a name is unknown, `b` is `sgd`, the overlaps are not stored, or for `z` the fluctuations.
    """
    for field, value, allowed in (
        ("kind", kind, KINDS),
        ("of", of, QUANTITIES),
        ("over", over, (None, "time")),
    ):
        if value not in allowed:
            raise unknown_name(field, value, [str(name) for name in allowed])
    if kind == "bias":
        mean, error, count, null_level = _average_bias(dataset, a, b, of, over)
        others = {"null_level": (null_level, "expected value if the true bias is 0")}
    else:
        compare = _compare_in_deviations if kind == "z" else differences
        runs = abs(compare(dataset, a, b, of))
        runs = runs.max("time") if over is None else runs
        mean, error, count = average_over_runs(runs)
        half_width = error * t_quantile(count_draws(runs).values - 1)
        others = {
            "low": (mean - half_width, "lower end of the 95 % interval of the discrepancy"),
            "high": (mean + half_width, "upper end of the 95 % interval of the discrepancy"),
        }
    if kind != "z":  # which has its own unit
        first = average_over_runs(initial_risk(dataset, a))[0]
        others |= {
            "over_sqrt_delta_t": (mean / parameter(dataset, "delta_t") ** 0.5, "discrepancy/√δt"),
            "over_initial_risk": (mean / first, "discrepancy/R(0)"),
        }
    variables = {
        "discrepancy": (mean, f"{kind} of |{a} - {b}|, {of}"),
        "standard_error": (error, "standard error of the discrepancy"),
        **others,
        "runs": (count, "runs"),
    }
    dims = [str(dim) for dim in mean.dims]
    plain = {name: (array.transpose(*dims).values, text) for name, (array, text) in variables.items()}
    return build_dataset(mean, dims, plain)


def largest_differences(
    dataset: xr.Dataset, a: str = "sgd", b: str = "ode", of: str = "risk"
) -> xr.DataArray:
    """max_t |X_s - X°_s| of each run, NaN if either has diverged or is missing."""
    return abs(differences(dataset, a, b, of)).max("time")


def differences(dataset: xr.Dataset, a: str, b: str, of: str = "risk") -> xr.DataArray:
    """X_s - X°_s of each run at t >= 10 δt, with the theory evaluated at the exact times of the SGD steps.

    For overlaps, the largest |entry|: of M and Q; of M and q between two mean-field regimes; of M alone
    between a mean-field regime and a source with Q.
    """
    arrays = list(_iterate_differences(dataset, a, b, of))
    if of == "risk":
        return arrays[0]
    neuron_dims = [[dim for dim in array.dims if dim in NEURON_DIMS] for array in arrays]
    largest = [abs(array).max(dims) for array, dims in zip(arrays, neuron_dims, strict=True)]
    return xr.concat(largest, "matrix").max("matrix")


def _compare_in_deviations(dataset: xr.Dataset, a: str, b: str, of: str) -> xr.DataArray:
    """(R_s - R°_s)/sd of each run, with the predicted standard deviation of the risk of SGD."""
    for field, value, allowed in (("a", a, "sgd"), ("of", of, "risk")):
        if value != allowed:
            raise InvalidInput(field, value, f"must be {allowed} for kind z")
    _require_both_sides(dataset, a, b)
    return z_scores(dataset, b)


def _average_bias(
    dataset: xr.Dataset, a: str, b: str, of: str, over: str | None
) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray, xr.DataArray]:
    """|mean over runs of X_s - X°_s| where it is largest, its error there, the number of runs, and the null
    level."""
    averages = []
    for array in _iterate_differences(dataset, a, b, of):
        neuron_dims = [dim for dim in array.dims if dim in NEURON_DIMS]
        flat = (
            array.stack({ENTRY: neuron_dims}, create_index=False) if neuron_dims else array.expand_dims(ENTRY)
        )
        averages.append(
            [average.drop_vars(NEURON_DIMS, errors="ignore") for average in average_with_deviations(flat)]
        )
    mean, deviations, count = (xr.concat(arrays, ENTRY) for arrays in zip(*averages, strict=True))
    mean, error = abs(mean), error_from_deviations(deviations)
    dims = [ENTRY] if over == "time" else [ENTRY, "time"]
    null_level = _estimate_null_level(deviations, dims)
    largest = mean.fillna(-1.0).argmax(dims)
    mean, error = (array.isel(largest) for array in (mean, error))
    if over is None:
        mean, error = mean.drop_vars("time"), error.drop_vars("time")  # the time of the maximum at each point
    return mean, error, count.max(dims), null_level


def _estimate_null_level(deviations: xr.DataArray, dims: Sequence[str]) -> xr.DataArray:
    """Expected maximum over `dims` of |mean over draws| if every true mean is 0; NaN with a single draw.

    The mean over trials in which every draw's deviation has a random sign: the sums have the standard error
    of the mean and the correlations in time of the draws. With 2, 3 and 4 draws it is about 26, 10 and 6 %
    too small.
    """
    draws = [dim for dim in deviations.dims if dim in DRAW_DIMS]
    flat = deviations.stack({DRAW: draws}, create_index=False).drop_vars(DRAW_DIMS, errors="ignore")
    number = flat.sizes[DRAW]
    if number <= NULL_TRIALS.bit_length():  # all signs, up to a common one
        signs = 1.0 - 2.0 * (np.arange(2 ** max(number - 1, 0))[:, None] >> np.arange(number) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(NULL_TRIALS, number))
    trials = (abs((flat * xr.DataArray(row, dims=DRAW)).sum(DRAW, skipna=False)).max(dims) for row in signs)
    return reduce(add, trials) / len(signs)


def _iterate_differences(dataset: xr.Dataset, a: str, b: str, of: str) -> Iterator[xr.DataArray]:
    """X_s - X°_s of the risk, or of all entries of each matrix; NaN before 10 δt and for diverged runs."""
    _require_both_sides(dataset, a, b)
    dataset = select_positive_times(dataset)
    at_steps = make_evaluation(dataset) if parse_source(dataset, a)[0] == "sgd" else lambda array: array
    names: Sequence[str] = ("risk",)
    if of != "risk":
        names = [name for name in MATRICES if all(_is_stored(dataset, source, name) for source in (a, b))]
    if not names:
        raise InvalidInput("of", of, "needs stored overlaps: add overlaps to the observables of the spec")
    converged = ~(has_diverged(dataset, a) | has_diverged(dataset, b))
    valid = converged & has_enough_steps(dataset)
    for name in names:
        yield (read_runs(dataset, a, name) - at_steps(read_runs(dataset, b, name))).where(valid)


def _require_both_sides(dataset: xr.Dataset, a: str, b: str) -> None:
    for field, source, kind, other in (("a", a, "sgd", "ode"), ("b", b, "ode", "sgd")):
        if source == kind and f"{kind}_risk" not in dataset and f"{other}_risk" in dataset:
            allowed = (
                f"is missing: the dataset has no {KIND_TITLES[kind]}. Name two of its regimes, or merge a "
                f"single point with a result of {SINGLE_POINT_FUNCTIONS[kind]} by ds.sweep.merge"
            )
            raise InvalidInput(field, source, allowed)
    if parse_source(dataset, b)[0] == "sgd":
        raise InvalidInput("b", b, "must be a theory; only a may be sgd")


def _is_stored(dataset: xr.Dataset, source: str, observable: str) -> bool:
    return f"{parse_source(dataset, source)[0]}_{observable}" in dataset
