"""The tables of starts and teachers in docs/sweeps.md say what the registry of initial conditions says."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from sweep_service.errors import InvalidInput
from sweep_service.model.initial import EXPLICIT_KINDS, INITS
from sweep_service.model.point import Point

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sweeps.md"
SECTION = re.search(r"^## Starts\n(.*?)^## ", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)[1]
P_, K_, D_ = 3, 2, 50


def read_table(first_column):
    """The cells of each row of a table of the section, by its first cell."""
    rows = re.search(rf"^\| `{first_column}` \|.*\n\|-.*\n((?:\|.*\n)+)", SECTION, re.MULTILINE)[1]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows.splitlines()]
    return {row[0].strip("`"): row[1:] for row in cells}


def describe(kind):
    """The row of a kind, from the registry."""
    numbers = ", ".join(f"`{name}` = {default:g}" for name, (default, _) in kind.parameters.items())
    least_d = {K_: "k", P_ + K_: "p + k"}[kind.least_d(P_, K_)]
    return [
        kind.formula, numbers or "none", f"`{kind.teacher}`", "yes" if kind.any_teacher else "no", least_d,
        "`true`" if kind.fixed_overlaps else "`{d0: N}`", "yes" if kind.invariant else "no",
    ]  # fmt: skip


def start(init, seed=0, d=D_):
    return Point.parse({"d": d, "p": P_, "k": K_, "gamma": 0.1, "init": init}).start(seed)


def test_table_has_every_kind_with_its_numbers():
    table = read_table("kind")
    assert list(table) == [*INITS, *EXPLICIT_KINDS]
    assert {name: table[name] for name in INITS} == {name: describe(kind) for name, kind in INITS.items()}
    assert {name: table[name][1] for name in EXPLICIT_KINDS} == {
        name: ", ".join(f"`{array}`" for array in arrays) for name, arrays in EXPLICIT_KINDS.items()
    }


def test_every_teacher_of_the_table_is_accepted_and_the_message_names_it():
    cells = [re.search("`(.*?)`", line)[1] for line in re.findall(r"^\| `[o r{].*", SECTION, re.MULTILINE)]
    teachers = [cell for cell in cells if cell not in (*INITS, *EXPLICIT_KINDS)]
    assert teachers == ["orthonormal", "random", "{scale: s}", "{rho: r, norms: […]}", "{gram: […]}"]
    with pytest.raises(InvalidInput) as error:
        start({"kind": "gaussian", "teacher": 3})
    for teacher in teachers:
        for key in re.findall(r"(\w+):", teacher) or [teacher]:
            assert key in str(error.value)


@pytest.mark.parametrize("line", re.search(r"```yaml\n(.*?)```", SECTION, re.DOTALL)[1].splitlines())
def test_examples_scale_the_students_alone(line):
    init = yaml.safe_load(line)["init"]
    overlaps = [start(init, seed).overlaps for seed in range(300)]
    norms = {name: np.mean([np.diag(getattr(o, name)) for o in overlaps]) for name in "QP"}
    # a mean of 600 or 900 norms of relative scatter √(2/d) = 0.2 errs by 0.008
    assert norms["Q"] == pytest.approx(init["scale"] ** 2, rel=0.04)
    assert norms["P"] == pytest.approx(1.0, rel=0.04)


@pytest.mark.parametrize(("kind", "size"), [("gaussian", 0.1), ("spherical", 1.0), ("informed", 1.0)])
def test_random_teacher_is_drawn_like_the_students(kind, size):
    """A random W* has the `scale` of a gaussian start, rows of norm √d if spherical, else rows N(0, I_d)."""
    init = {"kind": kind, "teacher": "random"} | ({"scale": size} if kind == "gaussian" else {})
    norms = [np.diag(start(init, seed).overlaps.P) for seed in range(300)]
    assert np.mean(norms) == pytest.approx(size**2, rel=0.04)  # as above
    assert (np.std(norms) < 1e-12) == (kind == "spherical")


@pytest.mark.parametrize("kind", [kind.name for kind in INITS.values() if kind.any_teacher])
def test_scale_of_the_teacher_alone(kind):
    """Rows of W* iid N(0, s² I_d): E P_rr = s², and E P_12² = s⁴/d, whatever the students."""
    P = np.array([start({"kind": kind, "teacher": {"scale": 3.0}}, seed).overlaps.P for seed in range(500)])
    # relative errors of the means: √(2/(50·1000)) = 0.6 %, and √(2/500) = 6 %
    assert P[:, [0, 1], [0, 1]].mean() == pytest.approx(9.0, rel=0.03)
    assert (P[:, 0, 1] ** 2).mean() == pytest.approx(81.0 / D_, rel=0.3)


def test_scale_of_the_teacher_is_part_of_the_identity():
    inits = [{"kind": "gaussian", "teacher": teacher} for teacher in ("random", {"scale": 1}, {"scale": 2.0})]
    points = [Point.parse({"d": D_, "p": P_, "k": K_, "gamma": 0.1, "init": init}) for init in inits]
    assert len({point.init.digest for point in points}) == 3
    for point in points:
        again = Point.parse({"d": D_, "p": P_, "k": K_, "gamma": 0.1, "init": point.init.content()})
        assert again.init.digest == point.init.digest


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        ({"scale": 1.0, "rho": 0.1}, "scale must stand alone: leave out rho"),
        ({"gram": [[1.0]], "rho": 0.1, "norms": [1.0]}, "gram must stand alone: leave out rho and norms"),
        ({"scale": 0.0}, "init.teacher.scale = 0"),
    ],
)
def test_invalid_teachers_are_refused(teacher, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        start({"kind": "gaussian", "teacher": teacher})


def test_symmetric_start_refuses_other_teachers():
    with pytest.raises(InvalidInput, match=r"^init\.teacher = "):
        start({"kind": "symmetric", "teacher": {"scale": 1.0}})
