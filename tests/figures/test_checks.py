"""The figures: golden numbers are reproduced, wrong ones fail, and figures can be drawn."""

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
from sweep_service.figures import FIGURES, Check, find_figure
from sweep_service.planning.costs import Calibration
from sweep_service.planning.estimate import estimate
from sweep_service.planning.grids import Grid
from sweep_service.planning.keys import CopyGroups
from sweep_service.planning.plan import SweepPlan
from sweep_service.presets import PRESETS, read_preset
from sweep_service.store.folder import DataFolder
from validation.document import find_differences
from validation.figures import GOLDEN, rows_of_figure

ROOT = Path(__file__).resolve().parents[2]
FAST = ("fig2-left", "rates", "giant-steps")  # seconds each; the others take up to some minutes
MAX_CORE_SECONDS = {"presets": 300.0, "full_presets": 50 * 3600.0}  # estimated core-seconds of a sweep
OTHERS = ("phase-diagram",)  # presets without a figure

slow_or_not = pytest.mark.parametrize(
    "figure",
    [
        pytest.param(figure, marks=() if name in FAST else pytest.mark.slow, id=name)
        for name, figure in FIGURES.items()
    ],
)


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """The quick datasets of a figure, computed once for all tests in one folder, so that runs are reused."""
    folder = DataFolder(tmp_path_factory.mktemp("figures"))

    @cache
    def of(figure):
        result = {}
        for name in figure.presets:
            with Conductor(folder, SerialExecutor()) as conductor:
                sweep, _ = conductor.submit(read_preset(name))
                assert conductor.run(sweep.id).state == "completed"
            result[figure.dataset_name(name)] = xr.open_zarr(folder.dataset_path(sweep.id), chunks=None)
        return result

    return of


@slow_or_not
def test_golden_numbers_are_reproduced(computed, figure):
    checks = figure.check(computed(figure))
    print(*checks, sep="\n")
    assert checks
    assert [str(check) for check in checks if not check.passed] == []


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_validation_page_has_the_numbers(computed, figure):
    rows = list(rows_of_figure(figure, computed(figure)))
    assert find_differences("figures", rows, part=f"{figure.name}: ") == []
    assert set(GOLDEN.get(figure.name, {})) <= {row.quantity.removeprefix(f"{figure.name}: ") for row in rows}


@slow_or_not
def test_figure_is_drawn(computed, figure):
    file = io.BytesIO()
    save(figure.draw(computed(figure)), file, "png")
    assert file.getvalue().startswith(b"\x89PNG")


def wrong_theory(datasets):
    """A theory that is wrong by a fifth."""
    return {name: dataset.assign(ode_risk=1.2 * dataset["ode_risk"]) for name, dataset in datasets.items()}


def swapped_teachers(datasets):
    M = datasets[""]["sgd_overlap_student_teacher"]
    return {"": datasets[""].assign(sgd_overlap_student_teacher=M.copy(data=M.values[..., ::-1]))}


def one_sided(datasets):
    """All neurons are aligned with the teacher."""
    return {"": datasets[""].assign(sgd_cosines=abs(datasets[""]["sgd_cosines"]))}


def another_exponent(datasets):
    """A wrong exponent of the final risk in d."""
    return {
        name: dataset.assign(sgd_risk=dataset["sgd_risk"] * dataset["d"] ** 0.1)
        for name, dataset in datasets.items()
    }


def reversed_decay(datasets):
    """Weight decay that makes students diverge."""
    decay = datasets[""]["weight_decay"]
    return {"": datasets[""].assign_coords(weight_decay=decay.values[::-1])}


# Figures whose golden numbers do not depend on the risk of the theory.
SPOILT = {
    "fig2-left": swapped_teachers, "fig5d": one_sided, "veiga-phase-plane": another_exponent,
    "weight-decay": reversed_decay,
}  # fmt: skip


@slow_or_not
def test_wrong_numbers_fail(computed, figure):
    datasets = SPOILT.get(figure.name, wrong_theory)(computed(figure))
    assert not all(check.passed for check in figure.check(datasets))


# ---- the registry


def test_presets_and_figures_belong_together():
    known = [name for figure in FIGURES.values() for name in (*figure.presets, *figure.full_presets)]
    assert sorted([*known, *OTHERS]) == sorted(PRESETS)
    assert all(find_figure(name).name == key for key, figure in FIGURES.items() for name in figure.presets)
    assert [find_figure(name) for name in (*OTHERS, "no such preset")] == [None, None]


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_datasets_are_named_after_their_presets(figure):
    quick, full = (
        [figure.dataset_name(name) for name in names] for names in (figure.presets, figure.full_presets)
    )
    assert quick[0] == full[0] == ""
    assert set(quick) <= set(full)
    assert len(set(full)) == len(full)
    assert figure.title
    assert all(figure.assumptions)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        (name, MAX_CORE_SECONDS[form])
        for figure in FIGURES.values()
        for form in MAX_CORE_SECONDS
        for name in dict.fromkeys(getattr(figure, form))
    ],
)
def test_preset_is_within_limits(name, most):
    plan = SweepPlan(Grid.of(read_preset(name)))
    wanted = {kind: CopyGroups(plan.keys[kind]).first_runs() for kind in plan.schema.variables}
    result = estimate(plan, wanted, sum(map(len, wanted.values())), Calibration())
    assert result.core_seconds < most
    assert result.bytes < 1 << 30


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
def test_check_as_text(check, bound, passed):
    assert (check.bound, check.passed) == (bound, passed)
    assert bound in str(check)
    assert ("FAILED" in str(check)) is not passed


def test_registry_imports_nothing_heavy():
    heavy = {"matplotlib", "numba", "scipy", "xarray"}
    code = f"import sys, sweep_service.figures; print(*sorted({heavy} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.split() == []
