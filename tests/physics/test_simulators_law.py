"""The simulators against each other: S3 has the law of S1, and S1, S2 and S4 follow one path."""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from sweep_service import simulate
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.point import Point
from sweep_service.simulators import selection
from sweep_service.simulators.kernels.streams import (
    CHUNK,
    FIELD,
    INPUT,
    NOISE,
    RADIUS,
    fill_chains,
    fill_normals,
    fill_radii,
    fill_steps,
    philox,
)
from sweep_service.simulators.overlap_processes import factored, wide_overlap_process
from tests.physics.reference import name
from tests.physics.sgd_reference import (
    GAUSSIAN,
    entries,
    features,
    key_of,
    largest_z,
    normals,
    plain_sgd,
    run,
    smallest_p,
)

# Some thousand p-values are taken here. With the line at 1e-6 true statements fail once in a thousand
# choices of the streams, while every deliberate mistake below lies well beyond it.
LINE = 1e-6
# The same for z-scores, of which there are some thousand too: P(|z| > 5.5) = 4e-8 leaves room for tails.
Z_LINE = 5.5

ACTS = list(ACTIVATIONS.values())
# γ as large as SGD bears at p = 4, d = 30: risks then differ by 10 to 20% between chains.
LARGE = {"square": 0.3}
BASE = {"d": 30, "p": 4, "k": 2, "gamma": 3.0, "noise": 0.1, "init": GAUSSIAN}
# Records inside a block, after several, and later; none of them a multiple of a block.
STEPS = (5, 27, 150)


def point_of(act="erf", **changes):
    return {**BASE, "activation": act, "gamma": LARGE.get(act, 3.0), **changes}


def path_engine(point):
    """The simulator that follows the definition most closely."""
    return "S1" if selection.choose_simulator(Point.parse(point)).compiled else "S2"


# Starts that cover all cases of the factor and the Gram matrix in the overlap process.
STARTS = {
    **{act.name: point_of(act.name) for act in ACTS},
    "other teacher": point_of("tanh", teacher_activation="relu"),
    "random teacher, k > p": point_of(p=2, k=3, gamma=1.5, init={"kind": "gaussian"}),
    "one student, one teacher": point_of("relu", p=1, k=1, d=3, gamma=0.8),
    "planted, rank k": point_of(init={"kind": "planted"}),
    "informed, rank k": point_of("square", p=5, init={"kind": "informed"}, gamma=0.3),
    "d < p + k": point_of(p=6, d=5),
    "d = p + k": point_of("relu", d=6),
    "d just above p + k": point_of("tanh", d=9),
    "d = k + 1": point_of(d=3),
    "d = k": point_of("relu", d=2),
    "long blocks": point_of(p=20, k=3, d=30, gamma=12.0),
    "informed, low d": point_of(p=6, d=4, init={"kind": "informed"}),
    "large d": point_of("relu", d=300, gamma=8.0),
}
FORMS = {"compiled": "S3", "wide": "S3", "factored": "S3-factored"}


@pytest.fixture(params=FORMS)
def overlap_engine(request, monkeypatch):
    """Each form of the overlap process at any width; a factor is decomposed after every block."""
    monkeypatch.setattr(factored, "BLOCKS_PER_DECOMPOSITION", 1)
    if request.param == "wide":
        monkeypatch.setattr(selection, "MAX_COMPILED_NEURONS", 0)
    return FORMS[request.param]


@cache
def by_definition(start, seed, chains, steps=STEPS):
    """Features of chains that follow SGD as it is defined."""
    point = STARTS[start]
    return features(run(point, steps, seed=seed, repeat=range(chains), engine=path_engine(point)))


@pytest.mark.parametrize("start", STARTS)
def test_overlap_process_has_law_of_sgd(start, overlap_engine):
    """Risk and overlaps of chains from one start; their streams are independent by their purposes."""
    result = features(run(STARTS[start], STEPS, seed=1, repeat=range(400), engine=overlap_engine))
    assert smallest_p(result, by_definition(start, 1, 400)) > LINE


@pytest.mark.parametrize("act", ACTS, ids=name)
def test_law_agrees_over_random_starts(act, overlap_engine):
    """Different seeds for each simulator, because chains of one seed share their start."""
    point = point_of(act.name, d=12)
    expected = features(run(point, STEPS[:2], seed=range(200), engine=path_engine(point)))
    result = features(run(point, STEPS[:2], seed=range(200, 400), engine=overlap_engine))
    assert smallest_p(result, expected) > LINE


# Blocks of 64 and more steps, in one stretch, in two, and in eight; beyond p = 220 by LAPACK.
WIDE = {
    "erf": point_of(p=70, d=90, gamma=40.0),
    "planted": point_of("tanh", p=70, k=3, d=80, gamma=40.0, init={"kind": "planted"}),
    "two stretches": point_of("relu", p=160, k=2, d=400, gamma=200.0),
}
WIDEST = {
    "eight stretches": point_of(p=320, d=700, gamma=300.0),
    "square": point_of("square", p=320, k=4, d=700, gamma=40.0),
}


def wide_law(point, chains, monkeypatch):
    monkeypatch.setattr(selection, "MAX_COMPILED_NEURONS", 0)
    expected, result = (run(point, [70, 150], engine=e, repeat=range(chains)) for e in ("S2", "S3"))
    assert result.engine_form == "WideOverlapProcess"
    assert smallest_p(features(result), features(expected)) > LINE


@pytest.mark.parametrize("point", WIDE.values(), ids=WIDE.keys())
def test_wide_students_have_law_of_sgd(point, monkeypatch):
    wide_law(point, 200, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("point", WIDEST.values(), ids=WIDEST.keys())
def test_widest_students_have_law_of_sgd(point, monkeypatch):
    wide_law(point, 200, monkeypatch)


# A start and a number of steps that one block of every form can hold.
ONE_BLOCK = {
    "erf, d just above p + k": (point_of(p=3, d=8), 8),
    "erf, room for a block": (point_of(p=3, d=11), 5),
    "square, rank k": (point_of("square", p=3, init={"kind": "informed"}), 8),
    "relu, d < p + k": (point_of("relu", p=3, d=4), 5),
}


def block(start, engine):
    """Overlaps of 2000 chains after one block."""
    point, steps = ONE_BLOCK[start]
    return entries(run(point, [steps], repeat=range(2000), engine=engine))


@cache
def block_by_definition(start):
    return block(start, path_engine(ONE_BLOCK[start][0]))


@pytest.mark.parametrize("start", ONE_BLOCK)
def test_one_block_has_means_and_covariances_of_sgd(start, overlap_engine):
    """After few steps tails are mild, so 2000 chains resolve a sixth of a standard deviation of a mean."""
    assert largest_z(block(start, overlap_engine), block_by_definition(start)) < Z_LINE


def test_wrong_dimension_is_detected():
    """The same start and δt in d = 40 for 30 (measured p < 1e-15 for six seeds)."""
    start = Point.parse(STARTS["erf"]).start(1).overlaps
    given = {"kind": "overlaps", "M": start.M, "Q": start.Q, "P": start.P}
    wrong = point_of(d=40, gamma=3.0 * 40 / 30, init=given)
    result = features(run(wrong, STEPS, repeat=range(400), engine="S3"))
    assert smallest_p(result, by_definition("erf", 1, 400)) < 1e-3 * LINE


@pytest.mark.parametrize("engine", ["S3", "S3-factored"])
def test_inputs_in_too_many_dimensions_are_detected(engine, monkeypatch):
    """As if the span of the weights had no dimensions: ‖x‖² too large by (p + k)/d (z = 10 to 13)."""
    monkeypatch.setattr(selection, "MAX_COMPILED_NEURONS", 0)
    monkeypatch.setattr(
        wide_overlap_process,
        "fill_radii",
        lambda key, step, degrees, *rest: fill_radii(key, step, degrees + 5, *rest),
    )
    start = "erf, room for a block"
    assert largest_z(block(start, engine), block_by_definition(start)) > Z_LINE


@pytest.mark.parametrize(
    ("gamma", "bounds"), [(0.5, (0.001, 0.05)), (0.75, (0.1, 0.5)), (1.0, (0.5, 0.95))], ids=str
)
def test_simulators_diverge_with_same_probability(gamma, bounds):
    """Square, p = 4, d = 20, after 320 steps: rarely at γ = ½ (about 0.8%), mostly at γ = 1."""
    point = {"d": 20, "p": 4, "k": 2, "gamma": gamma, "activation": "square", "init": GAUSSIAN}
    lost = {}
    for engine in ("S1", "S3", "S3-factored"):
        ds = run(point, [320], repeat=range(1200), engine=engine)
        status = np.array(ds.status)
        np.testing.assert_array_equal(status == "diverged", np.isnan(ds.risk.values[:, 0]))
        lost[engine] = int(np.sum(status == "diverged"))
        low, high = bounds
        assert low < lost[engine] / 1200 < high
    for engine in ("S3", "S3-factored"):
        table = [[lost[name], 1200 - lost[name]] for name in ("S1", engine)]
        assert stats.fisher_exact(table).pvalue > LINE


def relative_difference(ds, M, Q):
    """Largest difference of M and Q, in units of the largest overlap at each time."""
    size = np.max(np.abs(Q), axis=(-1, -2))
    return max(
        np.max(np.max(np.abs(result - expected), axis=(-1, -2)) / size)
        for result, expected in ((ds.overlap_student_teacher.values, M), (ds.overlap_student.values, Q))
    )


PATH_STEPS = (0, 1, 7, 64, 200)
# Steps whose inputs are drawn together are 64, 16 or 1 by d.
PATH_DIMENSIONS = (3, 8, 50, 4200)


def path_point(act, d, noise=0.3):
    """Neither p nor k fills a vector of four, and steps are small enough that paths do not separate."""
    return point_of(act, d=d, p=5, k=3, gamma=0.1 if act == "square" else 1.0, noise=noise)


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("d", PATH_DIMENSIONS)
@pytest.mark.parametrize("act", ACTS, ids=name)
def test_step_loop_agrees_with_definition(act, d, noise):
    """On the same inputs as the chain; roundings of 1e-16 add up over some hundred steps."""
    point = path_point(act.name, d, noise)
    ds = run(point, PATH_STEPS, seed=3, repeat=5, engine=path_engine(point))
    assert relative_difference(ds, *plain_sgd(point, PATH_STEPS, seed=3, repeat=5)) < 1e-12


def other_paths(point):
    """Simulators that compute the path of the first one differently."""
    return ["S2", "S4"] if point["activation"] == "square" else ["S2"]


@pytest.mark.parametrize(("d", "p", "noise"), [(3, 5, 0.3), (8, 23, 0.0), (50, 5, 0.0), (50, 23, 0.3)])
@pytest.mark.parametrize("teacher", ACTS, ids=name)
@pytest.mark.parametrize("act", ACTS, ids=name)
def test_simulators_on_weights_follow_same_path(act, teacher, d, p, noise):
    """The same inputs, summed differently: only rounding, which 200 steps do not magnify much."""
    point = path_point(act.name, d, noise) | {"p": p, "teacher_activation": teacher.name}
    chains = {"seed": [0, 1], "repeat": [4, 7, 9]}
    first = run(point, PATH_STEPS, engine=path_engine(point), **chains)
    for engine in other_paths(point):
        other = run(point, PATH_STEPS, engine=engine, **chains)
        M, Q = first.overlap_student_teacher.values, first.overlap_student.values
        assert relative_difference(other, M, Q) < 1e-12
        scale = np.max(first.risk.values)
        np.testing.assert_allclose(other.risk, first.risk, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("d", PATH_DIMENSIONS)
@pytest.mark.parametrize("act", [act for act in ACTS if act.code is not None], ids=name)
def test_forms_of_step_loop_give_same_bits(act, d):
    """Lanes hold neurons of a single chain, or chains if there are several."""
    point = path_point(act.name, d)
    alone = run(point, PATH_STEPS, seed=2, repeat=6, engine="S1")
    among = run(point, PATH_STEPS, seed=2, repeat=range(8), engine="S1")
    assert alone.engine_form != among.engine_form
    for variable in ("risk", "overlap_student", "overlap_student_teacher"):
        np.testing.assert_array_equal(alone[variable], among[variable].sel(repeat=6))


# Counter and key of four and two words, and what comes out, from the test vectors of Random123.
PHILOX = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def parse_words(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "expected"), PHILOX)
def test_philox_agrees_with_test_vectors(counter, key, expected):
    low, high, purpose, own = parse_words(counter)
    result = philox(
        np.uint64(low | high << 32), *(np.uint64(word) for word in (purpose, own, *parse_words(key)))
    )
    assert [part for word in result for part in divmod(int(word), 1 << 32)] == parse_words(expected)


KEYS = [key_of(BASE, repeat=repeat) for repeat in range(8)]
MANY = 1 << 20
# E x^2m of a normal
EVEN_MOMENTS = np.cumprod([1.0, *range(1, 12, 2)])


def test_normals_are_normal():
    x = normals(KEYS[0], INPUT, MANY)
    assert stats.kstest(x, "norm").pvalue > LINE
    for m in range(1, 7):
        mean = 0.0 if m % 2 else EVEN_MOMENTS[m // 2]
        deviation = np.sqrt(EVEN_MOMENTS[m] - mean**2)
        assert abs(np.mean(x**m) - mean) * np.sqrt(MANY) / deviation < Z_LINE


@pytest.mark.parametrize("chunk", [0, 5, (1 << 29) - 1, (1 << 58) - 2], ids=hex)
@pytest.mark.parametrize("purpose", [INPUT, NOISE])
def test_eight_chains_draw_same_normals_as_alone(purpose, chunk):
    """Also for the last numbers of a stream, and where its counter starts to need a second word."""
    together = np.empty(8 * 4 * CHUNK)
    fill_chains(np.stack(KEYS, axis=-1).reshape(-1), purpose, chunk, 0.5, together)
    for key, column in zip(KEYS, together.reshape(-1, 8).T, strict=True):
        alone = np.empty(4 * CHUNK)
        fill_normals(key, purpose, chunk, 0.5, alone)
        np.testing.assert_array_equal(column, alone)


@pytest.mark.parametrize("degrees", [1, 2, 3, 10, 1000, 10**6, 10**12])
def test_radii_are_chi_distributed(degrees):
    """Place a has degrees - a; at 10^12 the distribution function itself is known to 1e-4 only."""
    size, draws = min(degrees, 8), 4000
    radii, work = np.empty((draws, size)), np.empty(40)
    for draw, row in enumerate(radii):
        fill_radii(KEYS[0], 8 * draw, degrees, size, row, work)
    for a, column in enumerate(radii.T):
        left = degrees - a
        if left < 10**7:
            uniform = stats.chi.cdf(column, left)
        else:  # √(2χ²) - √(2n - 1) tends to a normal, up to terms of n^-½
            uniform = stats.norm.cdf(np.sqrt(2.0) * (column - np.sqrt(left - 0.5)))
        assert stats.kstest(uniform, "uniform").pvalue > LINE


def test_streams_are_uncorrelated():
    """Purposes, keys that differ by one repeat, steps and indices within a step; also squares of numbers."""
    count, work = 1 << 14, np.empty(40)
    rows = [normals(KEYS[0], purpose, count) for purpose in (INPUT, NOISE, FIELD, RADIUS)]
    rows += [normals(key, INPUT, count) for key in KEYS[1:]]
    rows += [normals(KEYS[0], INPUT, count, first=shift) for shift in (1, 2, 8, 16, 17)]
    by_step, radii = np.empty((6, count)), np.empty(count)
    fill_steps(KEYS[0], 0, 3, 3, count, by_step.reshape(-1))
    for step in range(count):
        fill_radii(KEYS[0], step, 5, 1, radii[step : step + 1], work)
    everything = np.array([*rows, *by_step, by_step[0, np.arange(count) - 1], radii])
    for values in (everything, everything**2):
        off_diagonal = np.corrcoef(values)[np.tril_indices(len(values), -1)]
        assert np.max(np.abs(off_diagonal)) * np.sqrt(count) < Z_LINE


def test_normals_belong_to_their_step():
    """Blocks may begin anywhere: columns follow the step, and no number is used twice."""
    pairs, steps, start = 5, 24, 1 << 34
    first, shifted, after = (np.empty((2 * pairs, steps)) for _ in range(3))
    for shift, out in ((0, first), (8 - 3, shifted), (steps, after)):
        fill_steps(KEYS[0], start + shift, pairs, pairs, steps, out.reshape(-1))
    np.testing.assert_array_equal(shifted[:, : steps - 5], first[:, 5:])
    both = np.hstack([first, after])
    assert np.unique(both).size == both.size
    fewer = np.empty((4, steps))
    fill_steps(KEYS[0], start, pairs, 2, steps, fewer.reshape(-1))
    np.testing.assert_array_equal(fewer, first[:4])


def test_radii_belong_to_their_step():
    whole, later, work = np.empty(16), np.empty(11), np.empty(40)
    fill_radii(KEYS[0], 100, 500, 16, whole, work)
    fill_radii(KEYS[0], 105, 495, 11, later, work)
    np.testing.assert_array_equal(later, whole[5:])


def test_factored_form_resolves_small_risks():
    """From a planted start without noise the risk falls to zero; S3 squares the condition number."""
    point = {"d": 50, "p": 2, "k": 2, "gamma": 1.0, "init": {"kind": "planted", "epsilon": 0.1}}
    plain, sharp = (simulate(point, times=[0, 1200, 2000], engine=e) for e in ("S3", "S3-factored"))
    # R is a difference of numbers near 0.2: what is left of zero is a few units of their last place, 3e-17
    assert np.all(np.abs(sharp.risk[1:]) < 2e-16)
    assert np.all(plain.risk[1:] > 3e-16)  # measured 7e-16 to 1e-15
    assert "S3-factored" in plain.attrs["warnings"]
    assert sharp.attrs["warnings"] == ""
