"""What a spec can name, read from the registries, and specs to start from."""

from __future__ import annotations

from dataclasses import fields

from fastapi import APIRouter

from sweep_service.analysis.export import FORMATS
from sweep_service.analysis.point_values import VALUES
from sweep_service.analysis.views import VIEWS
from sweep_service.api.error_responses import responses
from sweep_service.api.models import Catalogue, InitOut, Named, Option, ParameterOut, Preset, Presets
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.initial import INITS, InitKind
from sweep_service.model.observables import OBSERVABLES
from sweep_service.model.parameters import PARAMETERS, Parameter
from sweep_service.planning.grids import EXPONENTS, INIT
from sweep_service.presets import PRESETS, preset

router = APIRouter(prefix="/v1", tags=["catalogue"], responses=responses())
AUTO = Named(name="auto", about="the regime that fits a point, chosen for each")


@router.get("/presets")
def presets() -> Presets:
    """Specs to start from."""
    found = {name: preset(name) for name in PRESETS}
    return Presets(
        presets=[Preset(name=name, title=spec.name, spec=spec.written()) for name, spec in found.items()]
    )


@router.get("/catalogue")
def catalogue() -> Catalogue:
    """All that a spec or a query can name, read from the registries."""
    regimes = [Named(name=one.name, about=f"{one.title}: {one.valid_when}") for one in REGIMES.values()]
    return Catalogue(
        activations=[Named(name=one.name, about=one.formula) for one in ACTIVATIONS.values()],
        regimes=[*regimes, AUTO],
        observables=[
            Option(name=one.name, about=one.about, default=one.default) for one in OBSERVABLES.values()
        ],
        inits=[_init(one) for one in INITS.values()],
        parameters=[*PARAMETERS, *EXPONENTS, *(f"{INIT}{name}" for name in _scales())],
        parameter_details=[_parameter(one) for one in PARAMETERS.values()],
        regime_options=[
            Option(name=one.name, about=one.metadata["about"], default=getattr(RegimeOptions(), one.name))
            for one in fields(RegimeOptions)
        ],
        formats=[Named(name=name, about=one.media_type) for name, one in FORMATS.items()],
        views=[Named(name=name, about=one.about) for name, one in VIEWS.items()],
        values=[Named(name=name, about=one.long_name) for name, one in VALUES.items()],
    )


def _parameter(one: Parameter) -> ParameterOut:
    return ParameterOut(
        name=one.name, symbol=one.symbol, latex=one.latex, long_name=one.long_name, kind=one.kind,
        default=one.default, minimum=one.above if one.least is None else one.least, maximum=one.most,
        choices=list(one.choices()), logarithmic=one.logarithmic,
    )  # fmt: skip


def _init(kind: InitKind) -> InitOut:
    parameters = [Option(name=name, about="", default=value) for name, (value, _) in kind.parameters.items()]
    return InitOut(
        name=kind.name, about=kind.formula, parameters=parameters, teacher=kind.teacher,
        any_teacher=kind.any_teacher, shared=kind.fixed_overlaps,
    )  # fmt: skip


def _scales() -> list[str]:
    """Numbers of initial conditions, which may be axes."""
    return list(dict.fromkeys(name for kind in INITS.values() for name in kind.parameters))
