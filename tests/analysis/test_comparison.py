"""Two sweeps on their common points, against plain formulas."""

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.errors import InvalidInput
from tests.analysis.atlas.folders import BASE, compute_sweeps
from tests.analysis.synthetic import make_dataset

SEEDS = {"init": 4, "repeat": 2}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    specs = {
        "quiet": {**BASE, "seeds": SEEDS, "fixed": {"k": 2, "noise": 0.0}},
        "loud": {
            **BASE, "seeds": SEEDS, "fixed": {"k": 2, "noise": 0.1},
            "axes": {**BASE["axes"], "gamma": [0.5, 2.0]},
        },
        "planted": {**BASE, "seeds": SEEDS, "init": {"kind": "planted"}},
        "one": {**BASE, "seeds": {"init": 1, "repeat": 6}},
        "later": {**BASE, "seeds": {"init": 1, "repeat": 6}, "time": {"max": 4.0, "samples": 8}},
        "fast": {**BASE, "seeds": {"init": 1, "repeat": 6}, "fixed": {"k": 2, "noise": 0.2}},
    }  # fmt: skip
    ids, folder = compute_sweeps(tmp_path_factory.mktemp("pairs"), specs)
    return {name: ss.open(folder.dataset_path(sweep_id)).load() for name, sweep_id in ids.items()}


def late_means(dataset, **where):
    """The late mean of each run at one point, by seed and repeat."""
    from sweep_service.analysis.runs import late_means

    return late_means(dataset.sel(where), "sgd").values


def test_common_points_and_differences(pairs):
    result = ss.compare(pairs["quiet"], pairs["loud"], "sgd_final_risk", d=8)
    assert result.sizes["point"] == 1  # gamma = 0.5
    assert {name: result[name].item() for name in result.coords} == {"gamma": 0.5}
    assert result.attrs["differs"] == {"noise": [0.0, 0.1]}
    assert result.attrs["fixed"]["d"] == 8
    both = ss.compare(pairs["quiet"], pairs["loud"], "sgd_final_risk")
    assert sorted(both.d.values.tolist()) == [5, 8]


def test_shared_starts_are_paired(pairs):
    """The ratio of means, with the error of paired seeds by the delta method."""
    result = ss.compare(pairs["quiet"], pairs["loud"], "sgd_final_risk", d=5).squeeze()
    a, b = (late_means(pairs[name], d=5, p=4, gamma=0.5).mean(axis=-1) for name in ("quiet", "loud"))
    ratio = a.mean() / b.mean()
    error = np.std(a - ratio * b, ddof=1) / np.sqrt(4) / b.mean()
    assert result.paired.item()
    np.testing.assert_allclose([result.a, result.b, result.ratio], [a.mean(), b.mean(), ratio], rtol=1e-12)
    np.testing.assert_allclose(result.standard_error, error, rtol=1e-9)
    separate = ratio * np.hypot(np.std(a, ddof=1) / a.mean(), np.std(b, ddof=1) / b.mean()) / 2
    assert error < 0.7 * separate  # the starts are most of the scatter
    difference = ss.compare(pairs["quiet"], pairs["loud"], "sgd_final_risk", how="difference", d=5).squeeze()
    np.testing.assert_allclose(difference.difference, (a - b).mean(), rtol=1e-12)
    np.testing.assert_allclose(difference.standard_error, np.std(a - b, ddof=1) / 2, rtol=1e-9)


def test_other_starts_are_independent(pairs):
    result = ss.compare(pairs["loud"], pairs["planted"], "sgd_final_risk", d=5, gamma=0.5).squeeze()
    a, b = (late_means(pairs[name], d=5, p=4, gamma=0.5).mean(axis=-1) for name in ("loud", "planted"))
    errors = [np.std(side, ddof=1) / np.sqrt(4) / side.mean() for side in (a, b)]
    assert not result.paired.item()
    np.testing.assert_allclose(result.standard_error, a.mean() / b.mean() * np.hypot(*errors), rtol=1e-9)
    assert "init.kind" in result.attrs["differs"]


def test_repeats_of_one_seed_are_paired_by_their_streams(pairs):
    """The same chains at other times are paired; chains with other noise see other samples."""
    same = ss.compare(pairs["one"], pairs["later"], "sgd_final_risk", d=5, gamma=0.5).squeeze()
    assert same.paired.item()
    a, b = (late_means(pairs[name], d=5, p=4, gamma=0.5)[0] for name in ("one", "later"))
    ratio = a.mean() / b.mean()
    error = np.std(a - ratio * b, ddof=1) / np.sqrt(6) / b.mean()
    np.testing.assert_allclose(same.standard_error, error, rtol=1e-9)
    assert (
        not ss.compare(pairs["one"], pairs["fast"], "sgd_final_risk", d=5, gamma=0.5).squeeze().paired.item()
    )


def test_a_sweep_with_itself(pairs):
    result = ss.compare(pairs["loud"], pairs["loud"], "ode_risk")
    np.testing.assert_array_equal(result.ratio, 1.0)
    np.testing.assert_allclose(result.standard_error, 0.0, atol=1e-15)
    assert result.attrs["differs"] == {}


def test_spaced_axes_meet_in_spite_of_rounding():
    def curve(time, gamma):
        return gamma + 0.0 * time

    a = make_dataset(curve, {"gamma": np.geomspace(0.01, 1.0, 3)}, scatter=0.1, seeds=3)
    b = make_dataset(curve, {"gamma": [0.1 * (1 + 3e-16), 0.2]}, scatter=0.1, seeds=3)
    assert ss.compare(a, b).gamma.values.tolist() == pytest.approx([0.1])


def test_refusals(pairs):
    with pytest.raises(InvalidInput, match="how = 'quotient'"):
        ss.compare(pairs["quiet"], pairs["loud"], how="quotient")
    with pytest.raises(InvalidInput, match=r"no point in common with a: gamma = 0.1, 0.5 and gamma = 2"):
        ss.compare(pairs["quiet"], pairs["loud"].sel(gamma=[2.0]), d=5)
    with pytest.raises(InvalidInput, match="labels cannot be compared"):
        ss.compare(pairs["quiet"], pairs["loud"], "sgd_phase")
