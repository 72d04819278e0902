"""Keys, streams and starts: equal content gives equal numbers, different content different ones."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from sweep_service.errors import InvalidInput
from sweep_service.identity import Key, canonicalise, stream
from sweep_service.model.initial import INITS, Shape
from sweep_service.model.point import Point

CONTENT = {"d": 6, "init": {"kind": "gaussian", "scale": 0.1, "shared": False}, "M": [[0.1, -2.0]], "seed": 0}
# Recorded once: stored sweeps are identified by it.
GOLDEN = "74c3a057e065fff55ef979408a47f45fa9da138157339b3de7f7fa79c86f3dee"
GOLDEN_WORDS = [6515078979911697032, 2095430895099155488, 14895984604170109598]


def test_key_is_hash_of_canonical_json():
    text = '{"M":[[0.1,-2.0]],"d":6,"init":{"kind":"gaussian","scale":0.1,"shared":false},"seed":0}'
    assert Key.of(**CONTENT).digest == hashlib.sha256(text.encode()).hexdigest() == GOLDEN


def test_stream_has_golden_numbers():
    """Stored results are reproducible only while these words do not change."""
    numbers = stream(Key.of(**CONTENT), "students").bit_generator.random_raw(3)
    assert numbers.tolist() == GOLDEN_WORDS


def test_keys_do_not_depend_on_order_of_mapping():
    backwards = {name: CONTENT[name] for name in reversed(CONTENT)}
    backwards["init"] = dict(reversed(CONTENT["init"].items()))
    assert Key.of(**backwards) == Key.of(**CONTENT)


def test_keys_agree_between_processes():
    """Python hashes strings differently in each process; keys must not depend on that."""
    code = f"from sweep_service.identity import Key; print(Key.of(**{CONTENT!r}).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert digests == {Key.of(**CONTENT).digest}


CHANGES = {
    "d": {"d": 7},
    "an int is not a float": {"d": 6.0},
    "seed": {"seed": 1},
    "a bool is not an int": {"seed": False},
    "kind": {"init": {**CONTENT["init"], "kind": "spherical"}},
    "last bit up": {"init": {**CONTENT["init"], "scale": np.nextafter(0.1, 1)}},
    "last bit down": {"init": {**CONTENT["init"], "scale": np.nextafter(0.1, 0)}},
    "last bit of an entry": {"M": [[0.1, np.nextafter(-2.0, 0)]]},
    "transposed": {"M": [[0.1], [-2.0]]},
    "one more": {"repeat": 0},
    "a number is not its text": {"d": "6"},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_every_change_changes_the_key(change):
    assert Key.of(**{**CONTENT, **change}) != Key.of(**CONTENT)


def test_all_changes_differ():
    keys = {Key.of(**{**CONTENT, **change}) for change in CHANGES.values()}
    assert len(keys) == len(CHANGES)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float64(0.1), 0.1),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([[1.0, 0.1]]), [[1.0, 0.1]]),
        ((1, (2.0, np.int32(3))), [1, [2.0, 3]]),
        ({"b": np.arange(2), "a": None}, {"a": None, "b": [0, 1]}),
    ],
)
def test_canonical_unwraps_numpy(value, plain):
    result = canonicalise(value)
    assert repr(result) == repr(plain)  # types too: np.float64(0.1) == 0.1, but its repr is another
    assert Key.of(x=value) == Key.of(x=plain)


@pytest.mark.parametrize("value", [np.nan, np.inf, np.array([1.0, -np.inf])])
def test_key_of_non_finite_number_is_refused(value):
    with pytest.raises(ValueError, match="JSON"):
        Key.of(x=value)


def test_streams_of_key_are_reproducible():
    key = Key.of(**CONTENT)
    again = stream(key, "students").standard_normal(5)
    np.testing.assert_array_equal(stream(key, "students").standard_normal(5), again)


def test_streams_are_independent():
    """Streams of two purposes, of neighbouring seeds, and of both."""
    n = 100_000
    draws = [
        stream(Key.of(seed=seed), purpose).standard_normal(n)
        for seed in (0, 1)
        for purpose in ("students", "teacher")
    ]
    z = np.corrcoef(draws)[np.triu_indices(4, 1)] * np.sqrt(n)
    assert np.max(np.abs(z)) < 4  # six standard normals exceed 4 with probability 4e-4
    assert len({draw[0] for draw in draws}) == 4


SHAPE = Shape(7, 3, 2)
kinds = pytest.mark.parametrize("kind", INITS.values(), ids=lambda kind: kind.name)


def point(init, d=7, **rest):
    return Point.parse({"d": d, "p": 3, "k": 2, "gamma": 0.1, "init": init, **rest})


def start(init, seed=0, **rest):
    return point(init, **rest).start(seed)


def omega(init, seed=0, **rest):
    return start(init, seed, **rest).overlaps.omega


@kinds
def test_shared_overlaps_are_equal_for_every_d(kind):
    init = {"kind": kind.name, "shared": True if kind.fixed_overlaps else {"d0": 12}}
    first = start(init, 3, d=100)
    rank = first.overlaps.rank
    assert 2 <= rank <= 5  # k and p + k
    for d in (rank, rank + 1, 10**6):
        np.testing.assert_array_equal(omega(init, 3, d=d), first.overlaps.omega)
    with pytest.raises(InvalidInput, match=rf"^d = {rank - 1}: must be >= "):
        start(init, 3, d=rank - 1)


@kinds
def test_starts_depend_on_parameters_in_key(kind):
    """A start that draws differs with d, p, k, its numbers and the seed."""
    base = {"kind": kind.name}
    shape = Shape(20, 3, 2)
    keys = {point(base, d=20).init.key(shape, 0), point(base, d=20).init.key(shape, 1)}
    keys |= {point(base, d=20).init.key(Shape(*other), 0) for other in ((21, 3, 2), (20, 4, 2), (20, 3, 3))}
    keys |= {
        point({**base, name: np.nextafter(default, 0.5)}, d=20).init.key(shape, 0)
        for name, (default, _) in kind.parameters.items()
    }
    assert len(keys) == 5 + len(kind.parameters)
    if kind.name != "planted":  # which draws nothing
        assert not np.allclose(omega(base, 0), omega(base, 1), rtol=1e-9, atol=0)
        assert not np.allclose(omega(base, 0, d=20), omega(base, 0, d=21), rtol=1e-9, atol=0)


@kinds
def test_start_does_not_depend_on_gamma_noise_and_activation(kind):
    base = omega({"kind": kind.name}, 5)
    for rest in ({"gamma": 2.0}, {"noise": 0.3}, {"activation": "relu"}, {"teacher_activation": "square"}):
        np.testing.assert_array_equal(omega({"kind": kind.name}, 5, **rest), base)
    np.testing.assert_array_equal(omega({"kind": kind.name}, np.int64(5)), base)


SPELLINGS = [
    ({"kind": "gaussian", "orthonormal_teacher": True}, {"kind": "gaussian", "teacher": "orthonormal"}),
    ({"kind": "gaussian", "orthonormal_teacher": False}, {"kind": "gaussian", "teacher": "random"}),
    ({"kind": "gaussian"}, {"kind": "gaussian", "scale": 1, "teacher": "random", "shared": False}),
    ({"kind": "informed"}, {"teacher": "orthonormal", "kind": "informed"}),
    ({"kind": "symmetric", "epsilon": 0.0}, {"kind": "symmetric", "epsilon": -0.0}),
]


@pytest.mark.parametrize(("first", "second"), SPELLINGS)
def test_spellings_of_start_are_equal(first, second):
    assert point(first).init.key(SHAPE, 0) == point(second).init.key(SHAPE, 0)
    np.testing.assert_array_equal(omega(first), omega(second))


def test_seeds_are_independent():
    M = np.array([start({"kind": "gaussian"}, seed).overlaps.M.ravel() for seed in range(500)])
    for lag in (1, 2, 16):
        z = np.sum(M[lag:] * M[:-lag], axis=0) / np.sqrt(np.sum((M[lag:] * M[:-lag]) ** 2, axis=0))
        assert np.max(np.abs(z)) < 4  # 18 standard normals in all: exceeded once in 900 choices of seeds
