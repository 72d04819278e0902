"""What the service answers, as OpenAPI shows it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sweep_service.store.ledger import State


class Links(BaseModel):
    self: str
    spec: str
    zarr: str
    data: str
    events: str
    failures: str
    curves: str
    contents: str
    map: str
    phase_diagram: str
    dashboard: str
    page: str

    @classmethod
    def of(cls, sweep: str) -> Links:
        root = f"/v1/sweeps/{sweep}"
        own = ("spec", "zarr", "data", "events", "failures", "curves", "contents", "map")
        return cls(
            **{name: f"{root}/{name}" for name in own},
            self=root, phase_diagram=f"{root}/phase-diagram", dashboard="/dask/status",
            page=f"/sweeps/{sweep}",
        )  # fmt: skip


class SweepOut(BaseModel):
    """A sweep: its state, its runs by status, and how far it is in predicted cost."""

    id: str
    name: str
    state: State
    reason: str = Field(description="Why it waits, or why it could not go on; empty otherwise")
    created: str = Field(description="UTC")
    updated: str = Field(description="UTC; when its state changed last")
    extends: str | None
    priority: int
    key: str = Field(description="A digest of the canonical spec; equal specs are one sweep")
    runs: int
    reused: int = Field(description="Runs copied from earlier sweeps")
    counts: dict[str, int] = Field(description="Runs by status")
    progress: float = Field(ge=0.0, le=1.0, description="Of the predicted cost")
    eta_seconds: float | None
    core_seconds: float
    core_seconds_left: float
    bundles_left: int
    links: Links

    @classmethod
    def of(cls, about: dict[str, Any]) -> SweepOut:
        return cls(**about, links=Links.of(about["id"]))


class Page(BaseModel):
    sweeps: list[SweepOut]
    next: str | None = Field(description="The cursor of the next page; null at the end")


class EstimateOut(BaseModel):
    """What a sweep would cost, without what is stored already."""

    points: int
    runs: int
    reused: int
    copies: int
    sgd_steps: float
    core_seconds: float
    bytes: int
    dearest: dict[str, Any] = Field(description="The point that takes longest")
    warnings: list[str]
    refused: str | None = Field(description="Why it would be refused, if it would")


class Named(BaseModel):
    """Something that a spec can name."""

    name: str
    about: str


class SpecOut(BaseModel):
    """A spec in its shortest form: without what is the default."""

    spec: dict[str, Any]


class AxisOut(BaseModel):
    name: str
    long_name: str
    units: str
    values: list[Any] = Field(description="Each once; of a product in the order of its points")


class ValueOut(BaseModel):
    name: str
    about: str
    needs_regime: bool = Field(description="Whether a regime must be chosen where there are several")


class Suggestion(BaseModel):
    """The view that shows most of a sweep."""

    view: str
    words: dict[str, Any]


class OptionOut(BaseModel):
    value: str
    title: str


class ControlOut(BaseModel):
    """One choice of a view's form."""

    word: str = Field(description="The query parameter that it sets")
    title: str
    options: list[OptionOut]
    default: str


class FormOut(BaseModel):
    """What a person chooses for a view."""

    controls: list[ControlOut]
    axis_controls: list[str] = Field(description="Controls that choose an axis which the view shows")
    covers: list[str] = Field(description="Axes that the view always shows")
    rest: str = Field(description="Of each other axis: all, first, middle or nothing")
    one_regime: bool = Field(description="Whether one theory must be chosen")


class Contents(BaseModel):
    """What is in a stored sweep."""

    design: str = Field(description="product, zip, scaling, triangle or points")
    axes: list[AxisOut] = Field(description="Of the points; the regime is not among them")
    points: list[list[Any]] | None = Field(
        description="The values of the axes at each, unless it is a product"
    )
    sources: list[str] = Field(description="sgd, ode")
    regimes: list[str]
    seeds: int
    repeats: int
    times: list[float] = Field(description="The first and the last")
    observables: list[Named] = Field(description="What can be drawn against time")
    values: list[ValueOut] = Field(description="What can be drawn on two axes")
    views: list[str] = Field(description="Views that have something to show")
    forms: dict[str, FormOut] = Field(description="What to choose for each of these views")
    suggestion: Suggestion
    provenance: dict[str, Any]


class Map(BaseModel):
    """Runs of each point by status, in the order of the points; a status that no run has is left out."""

    points: int
    dims: list[str] = Field(description="Of the points, the last one fastest; their values are in `contents`")
    shape: list[int]
    runs: int = Field(description="Of each point, all statuses together")
    counts: dict[str, list[int]] = Field(description="By status, for each point")
    under_way: list[int] = Field(description="Points of which workers have something now")


class Failure(BaseModel):
    model_config = ConfigDict(extra="ignore")

    kind: str
    number: int
    error: str
    runs: list[int] = Field(description="The runs that share its result")
    command: str = Field(description="Computes it alone, where the data is")


class Failures(BaseModel):
    failures: list[Failure]
    next: str | None


class Preset(BaseModel):
    name: str
    title: str
    spec: dict[str, Any]


class Presets(BaseModel):
    presets: list[Preset]


class Option(Named):
    """Something that has a value if nothing is said."""

    default: bool | int | float


class InitOut(Named):
    parameters: list[Option] = Field(description="Its numbers, each of which may be an axis, as init.name")
    teacher: str = Field(description="The teacher if none is named")
    any_teacher: bool = Field(description="Whether the teacher may be another")
    shared: bool = Field(description="Whether `shared: true` will do; else it is `shared: {d0: N}`")


class ParameterOut(BaseModel):
    """A parameter of a point."""

    name: str
    symbol: str
    latex: str
    long_name: str
    kind: str = Field(description="integer, number or text")
    default: int | float | str | None = Field(description="null if it must be given, or follows another one")
    minimum: float | None
    maximum: float | None
    choices: list[str] = Field(description="Of a text")
    logarithmic: bool = Field(description="Whether axes of it are logarithmic by habit")


class Catalogue(BaseModel):
    activations: list[Named]
    regimes: list[Named]
    observables: list[Option] = Field(description="Those kept if none are named have the default true")
    inits: list[InitOut]
    parameters: list[str] = Field(description="What may be an axis or fixed, beside the regime")
    parameter_details: list[ParameterOut] = Field(description="Of a point: without exponents and starts")
    regime_options: list[Option]
    formats: list[Named]
    views: list[Named]
    values: list[Named]


class Health(BaseModel):
    status: str


class Ready(BaseModel):
    status: str
    version: str
    threads: int = Field(description="Threads that compute")
    waiting: str = Field(description="What keeps sweeps from going on; empty if nothing does")
    refused: list[str] = Field(description="Workers that had to leave, and why")


class WorkerOut(BaseModel):
    name: str
    host: str
    threads: int
    cpu_percent: float
    memory_bytes: int
    memory_limit_bytes: int | None
    tasks: int = Field(description="That run there or wait there")


class Queue(BaseModel):
    """Of one sweep that has not ended."""

    id: str
    name: str
    state: State
    priority: int
    bundles_under_way: int = Field(description="Given to the workers")
    bundles_left: int
    core_seconds_left: float


class ClusterOut(BaseModel):
    """Who computes, and what is waiting for them."""

    address: str = Field(description="Of the scheduler; empty without one")
    threads: int
    waiting: str = Field(description="What keeps sweeps from going on; empty if nothing does")
    refused: list[str] = Field(description="Workers that had to leave, and why")
    dashboard: str | None = Field(description="Where the Dask dashboard is, if it is there")
    workers: list[WorkerOut]
    queue: list[Queue]


class Session(BaseModel):
    may_change: bool
