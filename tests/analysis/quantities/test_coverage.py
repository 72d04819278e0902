"""The 95 % intervals hold the truth in 95 % of many synthetic sweeps."""

import numpy as np
import pytest

from tests.analysis.coverage import CASES, coverage, exponents_of_sweeps

FEW, MANY = 240, 4000
COSTLY = {case for case in CASES if CASES[case].cost > 1}  # of which only some have few sweeps
EULER = 0.57721566  # the mean of a Gumbel variable


def assert_covers(case, sweeps, record_property):
    """Between the bounds, which for a few sweeps are wider by three binomial standard deviations."""
    share = coverage(case, sweeps)
    record_property("coverage", share)
    margin = 0.0 if sweeps >= MANY else 3 * np.sqrt(0.95 * 0.05 / sweeps)
    assert CASES[case].low - margin <= share <= CASES[case].high + margin


@pytest.mark.parametrize("case", [case for case in CASES if case not in COSTLY or "10%, 4 seeds" in case])
def test_few_sweeps(case, record_property):
    assert_covers(case, FEW // CASES[case].cost, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_many_sweeps(case, record_property):
    assert_covers(case, MANY, record_property)


@pytest.mark.parametrize("law", ["normal", "gumbel"])
def test_prefactors_are_of_geometric_means(law):
    result = exponents_of_sweeps(np.random.default_rng(0), FEW, 8, law)
    prefactor = np.log(result["prefactor"]) - (0.3 * EULER if law == "gumbel" else 0.0)
    assert abs(float(prefactor.mean())) < 4 * float(prefactor.std()) / np.sqrt(FEW)
