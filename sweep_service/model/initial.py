"""Initial conditions: the overlaps at t = 0, the same for SGD and every ODE of a point.

A start is drawn as coordinates of the weights in an orthonormal basis whose first k directions
span the teacher (rows divided by √d). Inputs are isotropic, so nothing else about W matters, and the
cost of drawing does not depend on d.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.identity import Key, stream
from sweep_service.model.overlaps import (
    Overlaps,
    coordinates,
    gram_rank,
    inside_norms,
    parse_overlaps,
    require_semidefinite,
)
from sweep_service.model.second_layer import Readout
from sweep_service.model.teacher import SCALE_BOUNDS, Teacher, draw_bartlett_factor
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.registries import declare_registry
from sweep_service.validation import read_bool, read_integer, read_matrix, read_number, reject_unknown_keys

Parameters = Mapping[str, float]


@dataclass(frozen=True)
class Shape:
    d: int
    p: int
    k: int


@dataclass(frozen=True)
class InitKind:
    """A kind of initial condition. `draw` and `law` receive the teacher's factor L (P = L Lᵀ)."""

    name: str
    formula: str
    # name -> (default, bounds); these numbers may be axes of a sweep
    parameters: Mapping[str, tuple[float, dict[str, float]]]
    draw: Callable[[np.random.Generator, Shape, Parameters, Array], Array]
    # (m, q) of neurons at p = ∞ from uniforms (n, k+1); None where the law is that of the drawn neurons
    law: Callable[[Array, Shape, Parameters, Array], tuple[Array, Array]] | None
    teacher: str  # default
    any_teacher: bool
    invariant: bool  # the law is invariant under rotations orthogonal to the teacher
    fixed_overlaps: bool  # the draw does not depend on d, so `shared: true` is possible
    least_d: Callable[[int, int], int]
    warn: Callable[[Parameters], str | None] = lambda _: None


def _gaussian(rng: np.random.Generator, n: Shape, c: Parameters, L: Array) -> Array:
    inside = rng.standard_normal((n.p, n.k))
    outside = draw_bartlett_factor(rng, n.p, n.d - n.k) if n.d > n.k else np.empty((n.p, 0))
    return c["scale"] / np.sqrt(n.d) * np.hstack([inside, outside])


def _spherical(rng: np.random.Generator, n: Shape, c: Parameters, L: Array) -> Array:
    return _unit(_gaussian(rng, n, {"scale": 1.0}, L))


def _informed(rng: np.random.Generator, n: Shape, c: Parameters, L: Array) -> Array:
    return _unit(rng.standard_normal((n.p, n.k)) * _spanned(L))


def _symmetric(rng: np.random.Generator, n: Shape, c: Parameters, L: Array) -> Array:
    M = np.full((n.p, n.k), c["epsilon"] / n.k) + c["jitter"] * rng.standard_normal((n.p, n.k))
    return np.hstack([M, np.sqrt(c["q0"]) * (1.0 - c["epsilon"]) * np.eye(n.p)])


def _planted(rng: np.random.Generator, n: Shape, c: Parameters, L: Array) -> Array:
    return (1.0 - c["epsilon"]) * L[np.arange(n.p) % n.k]


def _spanned(L: Array) -> AnyArray:
    """Which of the first k directions the teacher spans: all, unless its rank is below k."""
    return np.any(L != 0.0, axis=0)


def _unit(X: Array) -> Array:
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def _gaussian_law(u: Array, n: Shape, c: Parameters, L: Array) -> tuple[Array, Array]:
    z, chi2 = special.ndtri(u[:, : n.k]), _chi2(u[:, n.k], n.d - n.k)
    chi2 = chi2 + np.sum(z[:, ~_spanned(L)] ** 2, axis=1)
    return c["scale"] / np.sqrt(n.d) * z @ L.T, c["scale"] ** 2 / n.d * chi2


def _spherical_law(u: Array, n: Shape, c: Parameters, L: Array) -> tuple[Array, Array]:
    z, chi2 = special.ndtri(u[:, : n.k]), _chi2(u[:, n.k], n.d - n.k)
    total = np.sum(z * z, axis=1) + chi2
    outside = chi2 + np.sum(z[:, ~_spanned(L)] ** 2, axis=1)
    return z / np.sqrt(total)[:, None] @ L.T, outside / total


def _informed_law(u: Array, n: Shape, c: Parameters, L: Array) -> tuple[Array, Array]:
    return _unit(special.ndtri(u[:, : n.k]) * _spanned(L)) @ L.T, np.zeros(len(u))


def _chi2(u: Array, degrees: int) -> Array:
    return special.chdtri(degrees, u) if degrees > 0 else np.zeros_like(u)


INITS = {
    kind.name: kind
    for kind in (
        InitKind(
            "gaussian", "rows of W and W* iid N(0, scale² I_d)",
            {"scale": (1.0, SCALE_BOUNDS)},
            _gaussian, _gaussian_law, teacher="random", any_teacher=True, invariant=True,
            fixed_overlaps=False, least_d=lambda p, k: k,
        ),
        InitKind(
            "spherical", "rows of W and W* uniform on the sphere of radius √d", {},
            _spherical, _spherical_law, teacher="random", any_teacher=True, invariant=True,
            fixed_overlaps=False, least_d=lambda p, k: k,
        ),
        InitKind(
            "informed", "rows of W uniform on the sphere of the teacher's span: Q⊥ = 0", {},
            _informed, _informed_law, teacher="orthonormal", any_teacher=True, invariant=True,
            fixed_overlaps=True, least_d=lambda p, k: k,
        ),
        InitKind(
            "symmetric", "M = (ε/k) 1 + jitter, Q⊥ = q0 (1-ε)² I, P = I",
            {"epsilon": (0.1, {"least": 0.0, "most": 1.0}), "q0": (1.0, {"least": 0.0, "most": 1e8}),
             "jitter": (1e-3, {"least": 0.0, "most": 1e8})},
            _symmetric, None, teacher="orthonormal", any_teacher=False, invariant=False,
            fixed_overlaps=True, least_d=lambda p, k: p + k,
            warn=lambda c: None if c["jitter"] > 0 else
            "jitter = 0: the start is exactly symmetric, so what follows the plateau is round-off",
        ),
        InitKind(
            "planted", "w_i = (1-ε) w*_r, r = i mod k: Q⊥ = 0",
            {"epsilon": (0.1, {"least": 0.0, "most": 1.0})},
            _planted, None, teacher="orthonormal", any_teacher=True, invariant=True,
            fixed_overlaps=True, least_d=lambda p, k: k,
        ),
    )
}  # fmt: skip
declare_registry("init", INITS)
# tr Q⊥(0) below this fraction of tr Q counts as zero up to rounding.
PROJECTION_TOLERANCE = 1e-10
EXPLICIT_KINDS = {"overlaps": ("M", "Q", "P"), "weights": ("W", "W_star")}


@dataclass(frozen=True)
class Start:
    """The start of one seed: vectors that were drawn or given as weights, or overlaps given as numbers."""

    invariant: bool | None  # None for explicit numbers, where it is unknown
    d: int  # dimension in which the students were drawn; their orthogonal parts span d - k dimensions
    vectors: tuple[Array, Array] | None = None  # coordinates of students and teachers
    explicit_overlaps: Overlaps | None = None
    readout: Readout | None = None  # None for second layers of ones that are not learned

    @cached_property
    def overlaps(self) -> Overlaps:
        """Ω(0), computed on first access because it is p by p."""
        if self.explicit_overlaps is not None:
            return self.explicit_overlaps
        assert self.vectors is not None
        return Overlaps.of(*self.vectors)

    @cached_property
    def teacher_rank(self) -> int:
        """The number of independent directions of the teacher."""
        P = self.overlaps.P if self.vectors is None else self.vectors[1] @ self.vectors[1].T
        return gram_rank(P)

    @cached_property
    def is_projected(self) -> bool:
        """Whether all neurons lie in the teacher's span, without the p by p overlaps of drawn vectors."""
        if self.vectors is None:
            norms, M, P = np.diag(self.overlaps.Q), self.overlaps.M, self.overlaps.P
        else:
            students, teachers = self.vectors
            norms, M, P = np.sum(students**2, axis=1), students @ teachers.T, teachers @ teachers.T
        outside = np.maximum(norms - inside_norms(M, P), 0.0)
        return bool(outside.sum() <= PROJECTION_TOLERANCE * norms.sum())

    def coordinates(self, d: int) -> tuple[Array, Array]:
        """Students (p, r) and teachers (k, r) in an orthonormal basis of R^d, r <= d, rows divided by √d."""
        if self.vectors is not None and self.vectors[0].shape[1] <= d:
            return self.vectors
        p, k = self.overlaps.M.shape
        students, teachers = np.zeros((p, min(d, p + k))), np.zeros((k, min(d, p + k)))
        for target, rows in zip((students, teachers), coordinates(self.overlaps), strict=True):
            kept = rows[:, : target.shape[1]]  # the rest is below the tolerance of the rank
            target[:, : kept.shape[1]] = kept
        return students, teachers


@dataclass(frozen=True)
class Init:
    """A validated initial condition; `parse` reads it, `start` draws a start."""

    kind: str
    parameters: dict[str, float] = field(default_factory=dict)
    teacher: Teacher | None = None
    shared: bool = False
    shared_d: int | None = None  # the dimension in which shared overlaps are drawn, if the draw needs one
    explicit_overlaps: Overlaps | None = None
    weights: tuple[Array, Array] | None = None  # explicit coordinates of students and teachers

    @classmethod
    def parse(cls, value: Any, shape: Shape) -> Init:
        """Read the `init` mapping of a point of this shape."""
        if not isinstance(value, Mapping):
            raise InvalidInput("init", value, "must be a mapping with a 'kind'")
        name = value.get("kind")
        if isinstance(name, str) and name in EXPLICIT_KINDS:
            overlaps, weights = _parse_explicit(value, shape)
            return cls(name, explicit_overlaps=overlaps, weights=weights)
        if not isinstance(name, str) or name not in INITS:
            raise unknown_name("init.kind", name, (*INITS, *EXPLICIT_KINDS))
        kind = INITS[name]
        known_keys = ("kind", *kind.parameters, "teacher", "orthonormal_teacher", "shared")
        reject_unknown_keys(value, known_keys, "init")
        parameters = {
            key: read_number(value.get(key, default), f"init.{key}", **bounds)
            for key, (default, bounds) in kind.parameters.items()
        }
        teacher = _parse_teacher(value, kind)
        teacher.check(shape.k)
        shared, shared_d = _parse_shared(value.get("shared", False), kind, shape)
        _require_dimension(shape, kind, teacher)
        return cls(name, parameters, teacher, shared, shared_d)

    def content(self) -> dict[str, Any]:
        """The content that identifies it, as plain JSON with one spelling."""
        if (overlaps := self.explicit_overlaps) is not None:
            return {"kind": "overlaps", "M": overlaps.M, "Q": overlaps.Q, "P": overlaps.P}
        assert self.teacher is not None
        shared = {"d0": self.shared_d} if self.shared_d is not None else self.shared
        return {"kind": self.kind, **self.parameters, "teacher": self.teacher.content(), "shared": shared}

    def describe(self) -> dict[str, float | str]:
        """Kind, numbers and teacher; of explicit numbers only the kind."""
        teacher = {} if self.teacher is None else {"teacher": _describe_teacher(self.teacher)}
        return {"kind": self.kind, **self.parameters, **teacher}

    @cached_property
    def digest(self) -> str:
        """Digest of its content, which is short even if explicit overlaps are many numbers."""
        return Key.of(init=self.content()).digest

    @property
    def basis(self) -> str:
        """Identifies the coordinates of its starts; equal overlaps can be given as weights or as numbers."""
        if self.weights is None:
            return self.kind
        return hashlib.sha256(b"".join(array.tobytes() for array in self.weights)).hexdigest()

    def key(self, shape: Shape, seed: int) -> Key:
        """Key of the start of a seed; it contains no d if the overlaps are shared over d, or explicit."""
        return Key.of(**self.key_content(shape, seed))

    def key_content(self, shape: Shape, seed: int) -> dict[str, Any]:
        """The content of the key of a start."""
        return {"p": shape.p, **self._teacher_key_content(shape, seed)}

    def _teacher_key_content(self, shape: Shape, seed: int) -> dict[str, Any]:
        d = None if self.shared or self.explicit_overlaps is not None else shape.d
        return {"d": d, "k": shape.k, "init": self.content(), "seed": seed}

    def start(self, shape: Shape, seed: int) -> Start:
        """Draw the start of one seed."""
        if self.explicit_overlaps is not None:
            return Start(None, shape.d, self.weights, self.explicit_overlaps)
        kind, draw_shape = INITS[self.kind], self._draw_shape(shape)
        L = self.teacher_factor(shape, seed)
        rng = stream(self.key(shape, seed), "students")
        students = kind.draw(rng, draw_shape, self.parameters, L)
        teachers = np.zeros((shape.k, students.shape[1]))
        teachers[:, : shape.k] = L
        start = Start(kind.invariant, draw_shape.d, (students, teachers))
        if self.shared and start.overlaps.rank > shape.d:
            raise InvalidInput(
                "d", shape.d, f"must be >= {start.overlaps.rank}, the rank of the shared start, to embed it"
            )
        return start

    def second_layer_streams(
        self, shape: Shape, seed: int
    ) -> tuple[np.random.Generator, np.random.Generator]:
        """Random numbers of the second layers of student and teacher, which move no first layer."""
        keys = self.key(shape, seed), Key.of(**self._teacher_key_content(shape, seed))
        return stream(keys[0], "second layer"), stream(keys[1], "second layer of the teacher")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about starts of this kind."""
        warning = None if self.explicit_overlaps is not None else INITS[self.kind].warn(self.parameters)
        return (warning,) if warning else ()

    def teacher_overlap(self, shape: Shape, seed: int) -> Array:
        """P of one seed, without drawing its students."""
        if self.explicit_overlaps is not None:
            return self.explicit_overlaps.P
        L = self.teacher_factor(shape, seed)
        return L @ L.T

    def teacher_factor(self, shape: Shape, seed: int) -> Array:
        """L with P = L Lᵀ; a random teacher without a scale of its own is drawn like the students."""
        assert self.teacher is not None
        # the key does not contain p, so that students of every width learn from the same teacher
        rng = stream(Key.of(**self._teacher_key_content(shape, seed)), "teacher")
        L = self.teacher.factor(shape.k, self._draw_shape(shape).d, rng)
        if self.teacher.kind != "random":
            return L
        if self.teacher.scale is not None:
            return L * self.teacher.scale
        return _unit(L) if self.kind == "spherical" else L * self.parameters.get("scale", 1.0)

    def particles(self, u: Array, shape: Shape, seed: int) -> tuple[Array, Array] | None:
        """(m, q) of the p = ∞ law at uniforms u (n, k+1); None where the law is that of the drawn neurons."""
        law = None if self.explicit_overlaps is not None else INITS[self.kind].law
        if law is None:
            return None
        return law(u, self._draw_shape(shape), self.parameters, self.teacher_factor(shape, seed))

    def _draw_shape(self, shape: Shape) -> Shape:
        return shape if self.shared_d is None else Shape(self.shared_d, shape.p, shape.k)


def describe_init(value: Mapping[str, Any]) -> dict[str, float | str]:
    """Kind, numbers and teacher of an initial condition, with defaults; of explicit numbers only the kind.

    A teacher with a Gram matrix is described as JSON.
    """
    kind = INITS.get(value["kind"])
    if kind is None:
        return {"kind": value["kind"]}
    numbers = {name: float(value.get(name, default)) for name, (default, _) in kind.parameters.items()}
    return {"kind": kind.name, **numbers, "teacher": _describe_teacher(_parse_teacher(value, kind))}


def _describe_teacher(teacher: Teacher) -> str:
    content = teacher.content()
    return content if isinstance(content, str) else json.dumps(content)


def _parse_explicit(value: Mapping[str, Any], shape: Shape) -> tuple[Overlaps, tuple[Array, Array] | None]:
    """Read the kinds `overlaps` and `weights`: the overlaps, and the coordinates if weights are given."""
    names = EXPLICIT_KINDS[value["kind"]]
    reject_unknown_keys(value, ("kind", *names), "init")
    for name in names:
        if name not in value:
            raise InvalidInput(f"init.{name}", None, "is required")
    arrays = [read_matrix(value[name], f"init.{name}") for name in names]
    p, k, d = shape.p, shape.k, shape.d
    expected = ((p, k), (p, p), (k, k)) if value["kind"] == "overlaps" else ((p, d), (k, d))
    for name, array, size in zip(names, arrays, expected, strict=True):
        if array.shape != size:
            raise InvalidInput(
                f"init.{name}",
                f"shape {array.shape}",
                f"must have shape {size}, since p = {p}, k = {k}, d = {d}",
            )
    if value["kind"] == "weights":
        W, W_star = (array / np.sqrt(d) for array in arrays)
        overlaps = Overlaps.of(W, W_star)
        require_semidefinite(overlaps.P, "init.W_star")
        return overlaps, (W, W_star)
    M, Q, P = arrays
    overlaps = parse_overlaps(M, Q, P)
    if overlaps.rank > d:
        raise InvalidInput("d", d, f"must be >= {overlaps.rank}, the rank of the given overlaps")
    return overlaps, None


def _parse_teacher(value: Mapping[str, Any], kind: InitKind) -> Teacher:
    if "orthonormal_teacher" in value:
        if "teacher" in value:
            raise InvalidInput(
                "init.orthonormal_teacher", value["orthonormal_teacher"], "cannot be combined with teacher"
            )
        orthonormal = read_bool(value["orthonormal_teacher"], "init.orthonormal_teacher")
        teacher = Teacher("orthonormal" if orthonormal else "random")
    else:
        teacher = Teacher.parse(value.get("teacher", kind.teacher))
    if not kind.any_teacher and teacher.kind != kind.teacher:
        raise InvalidInput(
            "init.teacher", teacher.content(), f"must be {kind.teacher!r} for a {kind.name} start"
        )
    return teacher


def _parse_shared(value: Any, kind: InitKind, shape: Shape) -> tuple[bool, int | None]:
    if isinstance(value, Mapping):
        reject_unknown_keys(value, ("d0",), "init.shared")
        if kind.fixed_overlaps:
            raise InvalidInput("init.shared", dict(value), f"must be true or false for a {kind.name} start")
        d0 = read_integer(value.get("d0"), "init.shared.d0")
        if d0 < kind.least_d(shape.p, shape.k):
            raise InvalidInput("init.shared.d0", d0, f"must be >= {kind.least_d(shape.p, shape.k)}")
        rank = min(shape.p + shape.k, d0)
        if shape.d < rank:
            raise InvalidInput("d", shape.d, f"must be >= {rank}, the rank of the shared start, to embed it")
        return True, d0
    shared = read_bool(value, "init.shared")
    if shared and not kind.fixed_overlaps:
        raise InvalidInput(
            "init.shared", True, f"must be {{d0: N}} for a {kind.name} start: its overlaps depend on d"
        )
    return shared, None


def _require_dimension(shape: Shape, kind: InitKind, teacher: Teacher) -> None:
    min_d = kind.least_d(shape.p, shape.k)
    if shape.d < min_d:
        formula = "p + k" if min_d == shape.p + shape.k else "k"
        raise InvalidInput(
            "d",
            shape.d,
            f"must be >= {formula} = {min_d} for a {kind.name} start with the {teacher.kind} teacher",
        )
