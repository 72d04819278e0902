"""Random specs of all designs, with axes of every kind of parameter."""

from hypothesis import strategies as st


def subsets(values, least=1, most=3):
    return st.lists(st.sampled_from(values), min_size=least, max_size=most, unique=True)


AXES = {
    "d": [3, 5, 40, 10**6],
    "p": [1, 2, 4, 300],
    "gamma": [1, 0.1, 1.0000000000000002, 1e-300],
    "k": [1, 2, 3],
    "noise": [0, -0.0, 1e-3, 2.5],
    "activation": ["erf", "relu", "tanh"],
    "teacher_activation": ["erf", "square"],
    "second_layer_rate": [0.0, 0.5],
    "batch": [1, 4],
    "weight_decay": [0.0, 1e-3],
    "init.scale": [0.5, 1.0, 2],
    "teacher.rho": [0.0, 0.2],
    "second_layer.scale": [1.0, 2.0],
    "teacher.second_layer.scale": [1.0, 3.0],
    "schedule.alpha": [0.25, 1.0],
}
STRUCTURES = {
    "init": [{"kind": "gaussian"}, {"kind": "gaussian", "shared": {"d0": 400}}, {"kind": "informed"},
             {"kind": "informed", "shared": True}, {"kind": "planted", "epsilon": 0.5}],
    "teacher": [{}, {"second_layer": {"init": "rademacher"}}, {"rho": 0.1}],
    "second_layer": [{}, {"init": "gaussian"}],
    "schedule": ["constant", {"power": {"t0": 10, "alpha": 0.5}}],
}  # fmt: skip
REGIME_NAMES = ["auto", "classical", "classical_noise", "high_dimensional", "mean_field",
                "mean_field_high_dimensional"]  # fmt: skip


@st.composite
def specs(draw):
    design = draw(st.sampled_from(["product", "zip", "scaling", "triangle", "points"]))
    names = draw(subsets(sorted(set(AXES) - {"d", "p", "gamma"}), least=0, most=3))
    axes = {name: draw(subsets(AXES[name])) for name in names}
    fixed = {} if "k" in axes else {"k": 2}
    spec = {name: draw(st.sampled_from(values)) for name, values in STRUCTURES.items()}
    core = {name: draw(subsets(AXES[name])) for name in ("d", "p", "gamma")}
    if design == "product":
        axes |= core
    elif design == "zip":
        rows = draw(st.integers(1, 4))
        values = (st.lists(st.sampled_from(AXES[name]), min_size=rows, max_size=rows) for name in core)
        axes |= dict(zip(core, map(draw, values), strict=True))
        spec["zip"] = [list(core)]
    elif design == "scaling":
        axes |= {"d": core["d"], "kappa": [0.0, 0.5], "delta": draw(subsets([-0.5, 0.0, 1.0]))}
        spec["scaling"] = {"p0": 4, "gamma0": 0.3}
    elif design == "triangle":
        spec["triangle"] = {"delta_t": 1e-3, "resolution": draw(st.integers(1, 5))}
    else:
        rows = draw(st.integers(1, 4))
        chosen = {**core, **axes}
        spec["points"] = [{name: draw(st.sampled_from(AXES[name])) for name in chosen} for _ in range(rows)]
        axes = {}
    regimes = draw(subsets(REGIME_NAMES, least=0))
    spec["simulate"] = draw(st.booleans()) or not regimes
    if regimes:
        axes["regime"] = regimes
    seeds = {"init": draw(subsets([0, 1, 17], most=2)), "repeat": draw(st.integers(1, 2))}
    options = {"finite_d_factor": draw(st.booleans())}
    spec |= {"fluctuations": "high_dimensional" in regimes and draw(st.booleans())}
    return {**spec, "axes": axes, "fixed": fixed, "seeds": seeds, "regime_options": options,
            "time": {"max": 1.0, "samples": 3}}  # fmt: skip
