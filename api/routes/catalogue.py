"""The names that a spec can use, from the registries, and the presets."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from sweep_service.analysis.export import FORMATS
from sweep_service.analysis.point_values import VALUES
from sweep_service.analysis.views import VIEWS
from sweep_service.api.error_responses import responses
from sweep_service.api.models import (
    Catalogue,
    InitOut,
    KindFieldOut,
    KindOut,
    Named,
    Option,
    ParameterOut,
    PluginOut,
    Preset,
    Presets,
    StructureOut,
)
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.initial import INITS, InitKind
from sweep_service.model.observables import OBSERVABLES
from sweep_service.model.parameters import PARAMETERS, Parameter
from sweep_service.model.structure_kinds import KindedStructure, list_kinded_structures
from sweep_service.model.structures import number_names
from sweep_service.planning.axes import EXPONENTS
from sweep_service.plugins import describe_plugins
from sweep_service.presets import PRESETS, read_assumptions, read_preset

router = APIRouter(prefix="/v1", tags=["catalogue"], responses=responses())
AUTO = Named(name="auto", about="the regime that fits, chosen for each point")


@router.get("/presets", operation_id="list_presets")
def presets() -> Presets:
    """List the presets."""
    specs = {name: read_preset(name) for name in PRESETS}
    return Presets(
        presets=[
            Preset(name=name, title=spec.name, assumptions=read_assumptions(name), spec=spec.as_written())
            for name, spec in specs.items()
        ]
    )


@router.get("/catalogue", operation_id="get_catalogue")
def catalogue() -> Catalogue:
    """List all names that a spec or a query can use."""
    regimes = [
        Named(name=regime.name, about=f"{regime.title}: {regime.valid_when}") for regime in REGIMES.values()
    ]
    return Catalogue(
        activations=[
            Named(name=activation.name, about=activation.formula) for activation in ACTIVATIONS.values()
        ],
        regimes=[*regimes, AUTO],
        observables=[
            Option(name=observable.name, about=observable.about, default=observable.default)
            for observable in OBSERVABLES.values()
        ],
        inits=[_init(kind) for kind in INITS.values()],
        structures=[_structure(structure) for structure in list_kinded_structures()],
        parameters=[*PARAMETERS, *EXPONENTS, *number_names()],
        parameter_details=[_parameter(parameter) for parameter in PARAMETERS.values()],
        regime_options=[
            Option(
                name=field.name, about=field.metadata["about"], default=getattr(RegimeOptions(), field.name)
            )
            for field in RegimeOptions.public_fields()
        ],
        formats=[Named(name=name, about=entry.media_type) for name, entry in FORMATS.items()],
        views=[Named(name=name, about=view.description) for name, view in VIEWS.items()],
        values=[Named(name=name, about=value.long_name) for name, value in VALUES.items()],
        plugins=[PluginOut(**plugin) for plugin in describe_plugins()],
    )


def _parameter(parameter: Parameter) -> ParameterOut:
    minimum = parameter.above if parameter.least is None else parameter.least
    return ParameterOut(
        name=parameter.name,
        symbol=parameter.symbol,
        latex=parameter.latex,
        long_name=parameter.long_name,
        kind=parameter.kind,
        default=parameter.default,
        minimum=minimum,
        maximum=parameter.most,
        choices=list(parameter.choices()),
        logarithmic=parameter.logarithmic,
    )


def _init(kind: InitKind) -> InitOut:
    parameters = [Option(name=name, about="", default=value) for name, (value, _) in kind.parameters.items()]
    return InitOut(
        name=kind.name, about=kind.formula, parameters=parameters, teacher=kind.teacher,
        any_teacher=kind.any_teacher, shared=kind.fixed_overlaps,
    )  # fmt: skip


def _structure(structure: KindedStructure) -> StructureOut:
    kinds = [
        KindOut(
            name=kind.name,
            about=kind.about,
            template=kind.template,
            fields=[KindFieldOut(**asdict(entry), required=entry.is_required) for entry in kind.fields],
        )
        for kind in structure.kinds
    ]
    return StructureOut(name=structure.name, title=structure.title, kinds=kinds)
