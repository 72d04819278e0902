"""An entry of the registry is a parameter everywhere; an unsupported one is refused, never ignored."""

from dataclasses import replace

import pytest

from sweep_service.analysis.plots import style
from sweep_service.api.routes.catalogue import catalogue
from sweep_service.dynamics import regimes
from sweep_service.dynamics.auto import choose_regime
from sweep_service.dynamics.integrate import integrate
from sweep_service.errors import InvalidInput
from sweep_service.model.labels import variable_attributes
from sweep_service.model.parameters import FIRST_PARAMETERS, PARAMETERS, Parameter
from sweep_service.model.point import STRUCTURED_PARAMETERS, Point
from sweep_service.planning.grids import Grid
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.simulators import selection
from sweep_service.simulators.blocked import Blocked
from sweep_service.simulators.selection import SIMULATORS, choose_simulator
from sweep_service.simulators.simulate import simulate, stream_key

FRICTION = Parameter(
    "friction", "number", "φ", r"$\phi$", "friction", "friction of the made-up kind",
    default=0.0, least=0.0, most=10.0, logarithmic=True,
)  # fmt: skip
POINT = {"d": 9, "p": 3, "k": 2, "gamma": 0.3}
SPEC = {
    "axes": {"d": 9, "p": 3, "gamma": [0.1, 0.3], "regime": "classical"},
    "fixed": {"k": 2},
    "time": {"max": 1.0, "samples": 3},
}


@pytest.fixture
def new_parameter(monkeypatch):
    monkeypatch.setitem(PARAMETERS, FRICTION.name, FRICTION)


@pytest.fixture
def supported(new_parameter, monkeypatch):
    """Only gradient flow and the blocked simulator support the new parameter."""
    both = (*FIRST_PARAMETERS, FRICTION.name)
    monkeypatch.setitem(regimes.REGIMES, "classical", replace(regimes.REGIMES["classical"], supports=both))
    monkeypatch.setattr(Blocked, "supports", both)


def spec(**fixed):
    return SweepSpec.parse({**SPEC, "fixed": {"k": 2, **fixed}})


def test_new_parameter_is_in_schema(new_parameter):
    properties = SweepSpec.model_json_schema()["properties"]
    assert properties["fixed"]["properties"]["friction"] == {
        "type": "number", "description": FRICTION.long_name, "minimum": 0.0, "maximum": 10.0,
    }  # fmt: skip
    assert properties["axes"]["properties"]["friction"]["description"] == FRICTION.long_name


def test_new_parameter_is_in_points_and_attributes(supported):
    assert Point.parse(POINT)["friction"] == 0.0
    assert Point.parse({**POINT, "friction": 2})["friction"] == 2.0
    with pytest.raises(InvalidInput, match=r"friction = 11: must be a finite number >= 0 and <= 10"):
        Point.parse({**POINT, "friction": 11})
    result = integrate({**POINT, "friction": 0.5}, times=[0.0, 0.1], regime="classical")
    assert result.attrs["friction"] == 0.5


def test_new_parameter_can_be_axis(supported):
    axes = {**SPEC["axes"], "friction": {"log": [0.1, 1.0, 3]}}
    grid = Grid.of(SweepSpec.parse({**SPEC, "axes": axes}))
    assert grid.dims == ("d", "p", "gamma", "friction")
    assert [point["friction"] for point in grid.points[:3]] == pytest.approx([0.1, 10**-0.5, 1.0])


def test_non_default_parameter_changes_keys(supported):
    def keys(**fixed):
        grid = Grid.of(spec(**fixed))
        keys = SweepPlan(grid).keys
        return grid.key, *(keys[kind].tobytes() for kind in ("sgd", "ode"))

    def stream(**change):
        return stream_key(Point.parse({**POINT, **change}), seed=1, repeat=2)

    assert keys() == keys(friction=0.0)
    assert all(key != other for key, other in zip(keys(), keys(friction=0.5), strict=True))
    assert stream() == stream(friction=0.0) != stream(friction=0.5)


def test_default_of_new_parameter_keeps_keys(new_parameter, monkeypatch):
    """Results stored before the parameter existed keep their keys."""
    new = Grid.of(spec()).key, stream_key(Point.parse(POINT), 1, 2)
    monkeypatch.delitem(PARAMETERS, FRICTION.name)
    assert new == (Grid.of(spec()).key, stream_key(Point.parse(POINT), 1, 2))


def test_new_parameter_has_labels(new_parameter):
    assert variable_attributes("friction") == {"long_name": FRICTION.long_name}
    assert style.axis_label("friction") == r"friction $\phi$"
    assert style.is_log("friction", [0.1, 10.0])


def test_new_parameter_is_in_catalogue(new_parameter):
    result = catalogue()
    assert "friction" in result.parameters
    (detail,) = [parameter for parameter in result.parameter_details if parameter.name == "friction"]
    assert (detail.symbol, detail.kind, detail.default, detail.minimum) == ("φ", "number", 0.0, 0.0)


@pytest.mark.parametrize("regime", [*regimes.REGIMES, "auto"])
def test_no_regime_ignores_new_parameter(new_parameter, regime):
    with pytest.raises(InvalidInput, match=r"friction = 0.5: is not supported by .*: leave it at 0"):
        integrate({**POINT, "friction": 0.5}, times=[0.0, 0.1], regime=regime)


@pytest.mark.parametrize("engine", [*SIMULATORS, "auto"])
def test_no_simulator_ignores_new_parameter(new_parameter, engine):
    with pytest.raises(InvalidInput, match=r"friction = 0.5: is not supported by .*: leave it at 0"):
        simulate({**POINT, "activation": "square", "friction": 0.5}, times=[0.0, 0.1], engine=engine)


@pytest.mark.parametrize(
    ("change", "field", "component"),
    [
        ({"fixed": {"k": 2, "friction": 0.5}}, "fixed.friction", "the regime classical"),
        ({"axes": {**SPEC["axes"], "friction": [0.0, 0.5]}}, "axes.friction", "the regime classical"),
        ({"fixed": {"k": 2, "friction": 0.5}, "axes": {**SPEC["axes"], "regime": "auto"}}, "fixed.friction",
         "the regime auto"),
        ({"fixed": {"k": 2, "friction": 0.5}, "axes": {"d": 9, "p": 3, "gamma": 0.1}}, "fixed.friction",
         "any simulator"),
    ],
)  # fmt: skip
def test_sweep_with_unsupported_parameter_is_refused(new_parameter, change, field, component):
    with pytest.raises(InvalidInput, match=f"is not supported by {component}") as caught:
        Grid.of(SweepSpec.parse({**SPEC, **change}))
    assert caught.value.field == field


def test_sweep_at_default_is_accepted(new_parameter):
    assert "friction" not in Grid.of(spec(friction=0.0)).fixed


def test_only_supporting_simulators_and_regimes_are_chosen(supported):
    plain, non_default = (
        Point.parse({**POINT, "d": 200, "gamma": 2.0, **more}) for more in ({}, {"friction": 0.5})
    )
    assert choose_simulator(plain).name == "S3"
    assert choose_simulator(non_default).name == "S2"
    assert choose_regime(plain, plain.start(0)).regime == "high_dimensional"
    assert choose_regime(non_default, non_default.start(0)).regime == "classical"
    assert Grid.of(SweepSpec.parse({**SPEC, "fixed": {"k": 2, "friction": 0.5}})).fixed["friction"] == 0.5


def test_simulators_and_regimes_have_versions_and_support_first_parameters():
    for entry in (*SIMULATORS.values(), *regimes.REGIMES.values()):
        assert set(FIRST_PARAMETERS) <= set(entry.supports) <= {*PARAMETERS, *STRUCTURED_PARAMETERS}
        assert entry.version >= 1
    assert set(selection.PREFERENCE) <= set(SIMULATORS)
