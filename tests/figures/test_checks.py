"""The figures of the papers: their numbers come out, wrong ones do not pass, and they can be drawn."""

import io
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import xarray as xr

from sweep_service.analysis.plots.save import save
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.figures import FIGURES, Check, figure_of
from sweep_service.planning.costs import Calibration
from sweep_service.planning.estimate import estimate
from sweep_service.planning.grids import Grid
from sweep_service.planning.keys import Copies
from sweep_service.planning.plan import SweepPlan
from sweep_service.presets import PRESETS, preset
from sweep_service.store.folder import DataFolder

ROOT = Path(__file__).resolve().parents[2]
FAST = ("fig2-left", "rates")  # seconds each; the others up to some minutes
LONGEST = {"presets": 300.0, "full": 50 * 3600.0}  # core-seconds that a sweep may take by its estimate
OTHERS = ("phase-diagram",)  # presets that are no figures

slow_or_not = pytest.mark.parametrize(
    "figure",
    [
        pytest.param(one, marks=() if name in FAST else pytest.mark.slow, id=name)
        for name, one in FIGURES.items()
    ],
)


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """The quick datasets of a figure, once for all tests; figures that share runs find them."""
    folder = DataFolder(tmp_path_factory.mktemp("figures"))

    @cache
    def of(figure):
        found = {}
        for name in figure.presets:
            with Conductor(folder, SerialExecutor()) as conductor:
                sweep, _ = conductor.submit(preset(name))
                assert conductor.run(sweep.id).state == "completed"
            found[figure.part(name)] = xr.open_zarr(folder.dataset_path(sweep.id), chunks=None)
        return found

    return of


@slow_or_not
def test_the_numbers_come_out(computed, figure):
    checks = figure.check(computed(figure))
    print(*checks, sep="\n")
    assert checks
    assert [str(check) for check in checks if not check.passed] == []


@slow_or_not
def test_a_figure_is_drawn(computed, figure):
    file = io.BytesIO()
    save(figure.draw(computed(figure)), file, "png")
    assert file.getvalue().startswith(b"\x89PNG")


def wrong_theory(parts):
    """A theory that errs by a fifth."""
    return {part: one.assign(ode_risk=1.2 * one["ode_risk"]) for part, one in parts.items()}


def swapped_teachers(parts):
    M = parts[""]["sgd_overlap_student_teacher"]
    return {"": parts[""].assign(sgd_overlap_student_teacher=M.copy(data=M.values[..., ::-1]))}


def one_sided(parts):
    """All neurons along the teacher."""
    return {"": parts[""].assign(sgd_cosines=abs(parts[""]["sgd_cosines"]))}


def another_exponent(parts):
    """Of the final risk in d."""
    return {part: one.assign(sgd_risk=one["sgd_risk"] * one["d"] ** 0.1) for part, one in parts.items()}


# Figures whose numbers are those of SGD alone.
SPOILT = {"fig2-left": swapped_teachers, "fig5d": one_sided, "veiga-phase-plane": another_exponent}


@slow_or_not
def test_wrong_numbers_do_not_pass(computed, figure):
    parts = SPOILT.get(figure.name, wrong_theory)(computed(figure))
    assert not all(check.passed for check in figure.check(parts))


# ---- the registry


def test_every_preset_is_of_a_figure_and_every_figure_has_its_presets():
    known = [name for one in FIGURES.values() for name in (*one.presets, *one.full)]
    assert sorted([*known, *OTHERS]) == sorted(PRESETS)
    assert all(figure_of(name).name == one for one, figure in FIGURES.items() for name in figure.presets)
    assert [figure_of(name) for name in (*OTHERS, "no such preset")] == [None, None]


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_parts_are_named_by_what_follows_the_figure(figure):
    quick, full = ([figure.part(name) for name in names] for names in (figure.presets, figure.full))
    assert quick[0] == full[0] == ""
    assert set(quick) <= set(full)
    assert len(set(full)) == len(full)
    assert figure.title
    assert all(figure.assumptions)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        (name, LONGEST[form])
        for one in FIGURES.values()
        for form in LONGEST
        for name in dict.fromkeys(getattr(one, form))
    ],
)
def test_a_preset_is_accepted_and_can_be_paid(name, most):
    plan = SweepPlan(Grid.of(preset(name)))
    wanted = {kind: Copies(plan.keys[kind]).unique() for kind in plan.schema.variables}
    found = estimate(plan, wanted, sum(map(len, wanted.values())), Calibration())
    assert found.core_seconds < most
    assert found.bytes < 1 << 30


# ---- checks


@pytest.mark.parametrize(
    ("check", "bound", "passed"),
    [
        (Check.at_most("x", 0.02, 0.02), "<= 0.02", True),
        (Check.at_most("x", 0.0201, 0.02), "<= 0.02", False),
        (Check.at_least("x", 8.0, 8), ">= 8", True),
        (Check.at_least("x", 7.9, 8), ">= 8", False),
        (Check.within("x", 0.45, 0.45, 0.55), "in [0.45, 0.55]", True),
        (Check.within("x", 0.551, 0.45, 0.55), "in [0.45, 0.55]", False),
        (Check.at_most("x", float("nan"), 1.0), "<= 1", False),
        (Check.at_least("x", float("nan"), 1.0), ">= 1", False),
        (Check.within("x", float("nan"), 0.0, 1.0), "in [0, 1]", False),
    ],
)
def test_a_check_says_its_bound_and_whether_it_holds(check, bound, passed):
    assert (check.bound, check.passed) == (bound, passed)
    assert bound in str(check)
    assert ("FAILED" in str(check)) is not passed


def test_the_registry_loads_nothing_heavy():
    heavy = {"matplotlib", "numba", "scipy", "xarray"}
    code = f"import sys, sweep_service.figures; print(*sorted({heavy} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.split() == []
