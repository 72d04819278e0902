"""Questions with known answers, asked as users do: a spec for `ss.run`, then one call of `ds.sweep`."""

import numpy as np

import sweep_service as ss


def run(folder, spec):
    """Compute a sweep in this process and return its dataset."""
    with ss.run(spec, data=folder, workers=0, progress=False) as dataset:
        return dataset.load()


def growth_rates(folder, k, rates):
    """d ln R/dt of `high_dimensional` near W = W*, with p = k erf students, at each γ/p.

    The students start at their teachers, up to an orthogonal part of squared norm 1e-5: the equations are
    linear up to as much, and integrated to 1e-10. What decays faster than the leading mode is gone by half of
    the time.
    """
    eye = np.eye(k)
    dataset = run(folder, {
        "axes": {"d": 1000, "p": k, "gamma": [float(k * rate) for rate in rates],
                 "regime": "high_dimensional"},
        "fixed": {"k": k}, "simulate": False, "time": {"max": 200.0, "samples": 2, "tail": 8},
        "init": {"kind": "overlaps", "M": eye.tolist(), "Q": ((1.0 + 1e-5) * eye).tolist(),
                 "P": eye.tolist()},
        "observables": ["risk"],
    })  # fmt: skip
    late = dataset["ode_risk"].squeeze().sel(time=slice(100.0, None)).transpose("time", "gamma")
    assert float(late.min()) > 0.0
    return np.polyfit(late["time"].values, np.log(late.values), 1)[0]


def critical_rate(folder, k, near):
    """The γ/p at which the growth rate changes its sign, between 0.2 % below and 0.2 % above `near`."""
    rates = near * np.array([0.998, 1.002])
    low, high = growth_rates(folder, k, rates)
    assert low < 0.0 < high
    return float(rates[0] - low * (rates[1] - rates[0]) / (high - low))


def noise_floor_exponents(folder):
    """The exponents of the final risk in p at fixed γ, of SGD and of `classical_noise`, from the solution."""
    dataset = run(folder, {
        "axes": {"d": 10, "p": [2, 4, 8, 16], "gamma": 0.2, "regime": "classical_noise"},
        "fixed": {"k": 2, "noise": 1e-2}, "init": {"kind": "planted", "epsilon": 0.0},
        "seeds": {"init": 1, "repeat": 16}, "time": {"max": 100.0, "samples": 20, "tail": 64},
        "observables": ["risk"],
    })  # fmt: skip
    return {
        source: dataset.sweep.exponent("final_risk", along="p", source=source).squeeze()
        for source in ("sgd", "classical_noise")
    }


def discrepancy_exponent(folder):
    """The exponent of |SGD - high_dimensional| in δt."""
    dataset = run(folder, {
        "axes": {"d": [30, 100, 300, 1000], "p": 4, "gamma": 2.0, "regime": "high_dimensional"},
        "fixed": {"k": 2}, "init": {"kind": "informed", "shared": True},
        "seeds": {"init": 1, "repeat": 32}, "time": {"max": 10.0, "min": 0.01, "samples": 60},
        "observables": ["risk"],
    })  # fmt: skip
    return dataset.sweep.exponent("discrepancy", along="delta_t", b="high_dimensional").squeeze()


PHASE_RETRIEVAL = {
    "fixed": {"k": 1, "p": 1, "gamma": 0.01, "activation": "square"}, "simulate": False,
    "time": {"max": 4.0, "min": 0.01, "samples": 40, "tail": 80}, "observables": ["risk", "specialisation"],
}  # fmt: skip
SIZES = [10, 100, 1000, 10_000, 100_000]
LARGE_SIZES = [10**4, 10**5, 10**6, 10**7]


def escape_delay(folder):
    """The delay of phase retrieval for each e-fold of d, by the collapse of curves that start at M = d^-½.

    They start where those of large d pass: Q = 1/3, the saddle at M = 0.
    """
    dataset = run(folder, {
        **PHASE_RETRIEVAL,
        "axes": {"d": LARGE_SIZES, "init.epsilon": [d**-0.5 for d in LARGE_SIZES], "regime": "classical"},
        "zip": [["d", "init.epsilon"]], "init": {"kind": "symmetric", "q0": 1 / 3, "jitter": 0.0},
    })  # fmt: skip
    return dataset.sweep.collapse("logshift", source="classical")


def random_escape_delay(folder):
    """The same from random starts, M ~ N(0, 1/d), by the specialisation times of 24 starts at each d."""
    dataset = run(folder, {
        **PHASE_RETRIEVAL, "axes": {"d": SIZES, "regime": "classical"}, "seeds": 24,
        "init": {"kind": "gaussian", "orthonormal_teacher": True},
    })  # fmt: skip
    return dataset.sweep.collapse("logshift", source="classical")
