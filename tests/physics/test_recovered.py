"""Laws of the theory, recovered from stored sweeps by single calls of the accessor."""

import numpy as np
import pytest

import sweep_service as ss
from tests.stored import compute_dataset


def test_discrepancy_scales_as_root_of_step(tmp_path):
    dataset = compute_dataset(tmp_path, {
        "axes": {"d": [30, 100, 300, 1000], "p": 4, "gamma": 2.0, "regime": "high_dimensional"},
        "fixed": {"k": 2}, "init": {"kind": "informed", "shared": True},
        "seeds": {"init": 1, "repeat": 32}, "time": {"max": 10.0, "min": 0.01, "samples": 60},
        "observables": ["risk", "overlaps"],
    })  # fmt: skip
    result = dataset.sweep.exponent("discrepancy", along="delta_t", b="high_dimensional").squeeze()
    assert float(result["low"]) < 0.5 < float(result["high"])
    assert float(result["standard_error"]) < 0.04  # 32 runs at four steps, over 1.5 decades
    # the theorem is of the largest entry of Ω, which scatters less than the risk from run to run
    largest = dataset.sweep.exponent("overlap_discrepancy", b="high_dimensional").squeeze()
    assert abs(float(largest["exponent"]) - 0.5) < 4 * float(largest["standard_error"])
    assert float(largest["standard_error"]) < 0.03
    bias = dataset.sweep.discrepancy(b="high_dimensional", kind="bias")["discrepancy"]
    fluctuation = dataset.sweep.discrepancy(b="high_dimensional")["discrepancy"]
    assert (bias < 0.6 * fluctuation).all()  # 1/√32 of it, and what the theory really lacks


def test_noise_floor_scales_as_d_to_minus_kappa_plus_delta(tmp_path):
    dataset = compute_dataset(tmp_path, {
        "scaling": {"p0": 4, "gamma0": 4},
        "axes": {"d": [20, 60, 180], "kappa": 0.0, "delta": [0.25, 0.5]},
        "fixed": {"k": 2, "noise": 1e-3}, "init": {"kind": "planted", "epsilon": 0.01},
        "seeds": {"init": 1, "repeat": 8}, "time": {"max": 100.0, "samples": 30, "tail": 32},
        "observables": ["risk"],
    })  # fmt: skip
    result = dataset.sweep.exponent("final_risk", along="d")
    # c grows from its value at d = 20 by 1/(1 - 2/60), and with γ/p: a few percent over a decade in d
    np.testing.assert_allclose(result["exponent"], -(result["kappa"] + result["delta"]), atol=0.05)
    labels = dataset.sweep.scaling_phase()
    assert labels["phase"].values.tolist() == ["perfect", "perfect"]
    assert labels["region"].values.tolist() == ["perfect", "perfect"]


@pytest.mark.parametrize("d", [5, 10, 40])
def test_noise_floor_agrees_with_formula(tmp_path, d):
    dataset = compute_dataset(tmp_path, {
        "axes": {"d": d, "p": 8, "gamma": 0.4}, "fixed": {"k": 4, "noise": 1e-2},
        "init": {"kind": "planted", "epsilon": 0.01}, "seeds": {"init": 1, "repeat": 16},
        "time": {"max": 400.0, "samples": 30, "tail": 200}, "observables": ["risk"],
    })  # fmt: skip
    result = dataset.sweep.noise_floor().squeeze()
    assert float(result["ratio_error"]) < 0.04
    # four errors; γ/p = 0.05 raises c by a percent or so over the law of γ/p → 0
    assert abs(float(result["ratio"]) - 1.0) < 4 * float(result["ratio_error"]) + 0.02
    wanted = (1.0 - 2.0 / (3.0 * d)) / (2.0 * np.pi * np.sqrt(3.0)) * 0.05 * 1e-2
    assert float(result["law"]) == pytest.approx(wanted, rel=1e-6)
    assert ss.__version__
