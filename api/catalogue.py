"""What a spec can name, read from the registries, and specs to start from."""

from __future__ import annotations

from fastapi import APIRouter

from api.models import Catalogue, Named, Preset, Presets
from api.problems import responses
from sweep_service.analysis.values import VALUES
from sweep_service.analysis.views import VIEWS
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.export import FORMATS
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.initial import INITS
from sweep_service.model.observables import OBSERVABLES
from sweep_service.presets import PRESETS, preset

router = APIRouter(prefix="/v1", tags=["catalogue"], responses=responses())
AUTO = Named(name="auto", about="the regime that fits a point, chosen for each")


@router.get("/presets")
def presets() -> Presets:
    """Specs to start from."""
    found = {name: preset(name) for name in PRESETS}
    return Presets(
        presets=[
            Preset(name=name, title=spec.name, spec=spec.model_dump(mode="json", exclude_defaults=True))
            for name, spec in found.items()
        ]
    )


@router.get("/catalogue")
def catalogue() -> Catalogue:
    """Activations, regimes, observables, initial conditions, formats of export, views, derived values."""
    regimes = [Named(name=one.name, about=f"{one.title}: {one.valid_when}") for one in REGIMES.values()]
    return Catalogue(
        activations=[Named(name=one.name, about=one.formula) for one in ACTIVATIONS.values()],
        regimes=[*regimes, AUTO],
        observables=[Named(name=one.name, about=one.about) for one in OBSERVABLES.values()],
        inits=[Named(name=one.name, about=one.formula) for one in INITS.values()],
        formats=[Named(name=name, about=one.media_type) for name, one in FORMATS.items()],
        views=[Named(name=name, about=one.about) for name, one in VIEWS.items()],
        values=[Named(name=name, about=one.long_name) for name, one in VALUES.items()],
    )
