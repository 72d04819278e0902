"""The JSON responses of the service, as documented by OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sweep_service.store.ledger import State

# RFC 3339, as it is stored.
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


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
    def of(cls, sweep_id: str) -> Links:
        root = f"/v1/sweeps/{sweep_id}"
        subpaths = ("spec", "zarr", "data", "events", "failures", "curves", "contents", "map")
        return cls(
            **{name: f"{root}/{name}" for name in subpaths},
            self=root, phase_diagram=f"{root}/phase-diagram", dashboard="/dask/status",
            page=f"/sweeps/{sweep_id}",
        )  # fmt: skip


class SweepOut(BaseModel):
    """A sweep: its state, its runs by status, and its progress."""

    id: str
    name: str
    state: State
    reason: str = Field(description="Why the sweep waits, is paused or has failed; empty otherwise")
    created: Timestamp = Field(description="Time of submission, UTC")
    updated: Timestamp = Field(description="Time of the last change of state, UTC")
    extends: str | None
    priority: int
    key: str = Field(
        description="Digest of the canonical spec and the versions; with equal keys, it is the same sweep"
    )
    versions: dict[str, int | str] = Field(
        description="Versions of its simulators and regimes, if recorded, and digests of entries of plugins"
    )
    package: str = Field(description="Version of the package that last worked on it, if recorded")
    runs: int
    reused: int = Field(description="Runs copied from earlier sweeps")
    note: str | None = Field(description="A text about the sweep; null if it has none")
    tags: list[str] = Field(description="Words by which people group sweeps, sorted")
    owner: str | None = Field(description="Name of the token that submitted the sweep; null if it has none")
    stored_bytes: int | None = Field(description="Size of the stored data; null if it is not known yet")
    fixed: dict[str, int | float | str] = Field(
        description="Parameters with a single value, such as k and init.scale; empty if not recorded"
    )
    counts: dict[str, int] = Field(description="Runs by status")
    progress: float = Field(ge=0.0, le=1.0, description="Computed fraction of the predicted cost")
    eta_seconds: float | None = Field(description="Expected time left, at the rates of this sweep so far")
    eta_low_seconds: float | None = Field(description="It takes at least this long, 19 times out of 20")
    eta_high_seconds: float | None = Field(description="It takes at most this long, 19 times out of 20")
    core_seconds: float
    core_seconds_left: float
    bundles_left: int
    compiling: bool = Field(description="Whether it waits for code to be compiled, once per machine")
    links: Links

    @classmethod
    def of(cls, description: dict[str, Any]) -> SweepOut:
        return cls(**description, links=Links.of(description["id"]))


class Page(BaseModel):
    sweeps: list[SweepOut]
    next: str | None = Field(description="Cursor of the next page; null on the last one")


class FacetValue(BaseModel):
    value: float | int | str
    runs: int
    selected: bool = Field(description="Whether the selection names this value")


class Facet(BaseModel):
    name: str
    long_name: str
    symbol: str
    type: Literal["number", "text"]
    distinct: int = Field(description="How many values there are")
    missing: int = Field(description="Runs without a value")
    range: list[float | int] | None = Field(description="The smallest and the largest number")
    values: list[FacetValue] | None = Field(description="Null if there are more than a hundred")


class Facets(BaseModel):
    runs: int = Field(description="Selected runs, each of which counts once")
    with_values: int = Field(description="Those that are done or have diverged")
    points: int
    sweeps: int
    parameters: list[Facet]
    unreadable: dict[str, str] = Field(description="Sweeps that cannot be read, with the reason")


class RunPage(BaseModel):
    runs: list[dict[str, Any]] = Field(description="Columns of the index of runs, without missing values")
    total: int
    next: str | None = Field(description="Cursor of the next page; null on the last one")


class Comparison(BaseModel):
    a: str
    b: str
    value: str
    how: str
    labels: list[str] = Field(description="Names of the parameters that match points of both sweeps")
    fixed: dict[str, Any] = Field(description="Parameters with one value that both sweeps share")
    differs: dict[str, list[Any]] = Field(description="Parameters with another value in each sweep")
    points: list[dict[str, Any]] = Field(
        description="Labels, `a`, `b`, ratio or difference, `standard_error`, `paired`, `runs_a`, `runs_b`"
    )


class MethodCost(BaseModel):
    name: str = Field(description="sgd, or the name of a regime")
    runs: int = Field(description="Runs to compute, without those reused and copies of others")
    core_seconds: float


class AlternativeOut(BaseModel):
    instead_of: str = Field(description="sgd, or the name of a regime")
    instead_of_run_seconds: float
    regime: str
    run_seconds: float
    error: float = Field(description="Predicted largest error of the risk, in units of R(0)")


class EstimateOut(BaseModel):
    """The predicted cost of a sweep, without the runs that would be reused."""

    points: int
    runs: int
    reused: int
    copies: int
    sgd_steps: float
    core_seconds: float
    bytes: int
    dearest: dict[str, Any] = Field(description="The most expensive point")
    warnings: list[str]
    notes: list[str] = Field(description="What is not stored because it is large; where SGD starts late")
    breakdown: list[MethodCost] = Field(description="The same cost for SGD and for each regime")
    alternatives: list[AlternativeOut] = Field(
        description="Cheaper regimes for what takes long, at the point where a run of it costs most"
    )
    continued: int = Field(description="SGD runs that go on from the kept state of a shorter run")
    state_bytes: int = Field(description="Size of the last states of SGD runs; 0 if they are not kept")
    refused: str | None = Field(description="Why the sweep would be rejected; null if accepted")


class PredictedPoint(BaseModel):
    """The predicted scatter of the risk of SGD at a point, over time."""

    at: dict[str, int | float | str] = Field(description="Values of the axes that have several")
    title: str = Field(description="What the point stands for, such as the largest δt; empty if it is alone")
    delta_t: float
    starts: int = Field(description="Starts that are compared")
    time: list[float]
    scatter: list[float | None] = Field(description="Standard deviation of a draw over the mean")
    error: list[float | None] = Field(description="Standard error of the mean of all draws over the mean")
    nonlinearity: list[float | None] = Field(description="Above 0.3 the other numbers are lower bounds")
    seeds: list[float | None] = Field(description="Number of draws that `relative_error` needs")


class PredictedSeeds(BaseModel):
    """How accurately the seeds of a spec will determine the risk of SGD."""

    relative_error: float | None = Field(description="As requested, or chosen; null without a prediction")
    draws: int = Field(description="Independent draws: seeds, or with one seed its repeats")
    draws_are: str = Field(description="seeds or repeats")
    repeats: int = Field(description="Repeats of each seed")
    points_in_spec: int
    points: list[PredictedPoint] = Field(description="Up to three points, that with the largest error first")
    summary: list[str] = Field(description="A sentence for each point, about the last time")
    notes: list[str] = Field(description="What an error means, and why there is no prediction")


class RoundOut(BaseModel):
    """What one round adds to a sweep."""

    number: int
    points: int = Field(description="Points at which it adds runs")
    runs: int
    seeds: int = Field(description="Seeds of all points together, with those of earlier rounds")
    largest_seeds: int = Field(description="The most seeds of a point")
    basis: dict[str, int] = Field(
        description="Points by what decided their seeds: pilot; measured or predicted scatter; limit, that "
        "is max_seeds; or undefined, where the pilot has values that are missing or not positive"
    )


class RoundsOut(BaseModel):
    """The rounds of a sweep with a target error; none for other sweeps."""

    rounds: list[RoundOut]
    is_complete: bool = Field(description="Whether no other round follows")


class Named(BaseModel):
    """An entry of a registry: a name with a description."""

    name: str
    about: str


class SpecOut(BaseModel):
    """A spec in its shortest form, without default values."""

    spec: dict[str, Any]


class AxisOut(BaseModel):
    name: str
    long_name: str
    units: str
    values: list[Any] = Field(description="Distinct values; in a product, in the order of its points")


class ValueOut(BaseModel):
    name: str
    about: str
    needs_regime: bool = Field(description="Whether a regime must be chosen if the sweep has several")


class Suggestion(BaseModel):
    """The view to show first, with its options."""

    view: str
    words: dict[str, Any]


class OptionOut(BaseModel):
    value: str
    title: str


class ControlOut(BaseModel):
    """A control in the form of a view."""

    word: str = Field(description="The query parameter that the control sets")
    title: str
    options: list[OptionOut]
    default: str


class FormOut(BaseModel):
    """The form in which a user chooses the options of a view."""

    controls: list[ControlOut]
    axis_controls: list[str] = Field(description="Controls that choose an axis shown by the view")
    covers: list[str] = Field(description="Axes that the view always shows")
    rest: str = Field(description="Initial choice for all other axes: all, first, middle or nothing")
    one_regime: bool = Field(description="Whether one regime must be chosen")


class Contents(BaseModel):
    """The contents of a sweep's dataset, and what can be plotted."""

    design: str = Field(description="product, zip, scaling, triangle or points")
    axes: list[AxisOut] = Field(description="Axes of the points, without the regime")
    fixed: dict[str, int | float | str] = Field(description="Parameters with one value at all points")
    points: list[list[Any]] | None = Field(description="Values of the axes at each point; null for a product")
    sources: list[str] = Field(description="sgd, ode")
    regimes: list[str]
    seeds: int
    repeats: int
    times: list[float] = Field(description="First and last recorded time")
    observables: list[Named] = Field(description="Quantities that can be plotted against time")
    values: list[ValueOut] = Field(description="Quantities that a phase diagram can show")
    views: list[str] = Field(description="Views that apply to this sweep")
    forms: dict[str, FormOut] = Field(description="The form of each of these views")
    suggestion: Suggestion
    provenance: dict[str, Any]


class Map(BaseModel):
    """The number of runs by status at each point, in the order of the points; unused statuses are omitted."""

    points: int
    dims: list[str] = Field(description="Dimensions, the last varying fastest; values are in `contents`")
    shape: list[int]
    runs: int = Field(description="Total runs of each point")
    counts: dict[str, list[int]] = Field(description="For each status, the number of runs at each point")
    diverged: dict[str, list[int]] = Field(
        description="For each quantity by which runs diverged, the number of runs at each point"
    )
    under_way: list[int] = Field(description="Points with runs that are submitted to workers")


class Failure(BaseModel):
    model_config = ConfigDict(extra="ignore")

    kind: str
    number: int
    error: str
    runs: list[int] = Field(description="Numbers of all runs with this result: the run and its copies")
    command: str = Field(description="A command that computes only this run, on the machine with the data")


class Failures(BaseModel):
    failures: list[Failure]
    next: str | None


class Preset(BaseModel):
    name: str
    title: str
    assumptions: list[str] = Field(description="What it assumes beyond the papers")
    spec: dict[str, Any]


class Presets(BaseModel):
    presets: list[Preset]


class Option(Named):
    """A named option with its default value."""

    default: bool | int | float


class InitOut(Named):
    parameters: list[Option] = Field(description="Numbers, each of which may be an axis named init.NAME")
    teacher: str = Field(description="Default teacher")
    any_teacher: bool = Field(description="Whether other teachers are possible")
    shared: bool = Field(description="Whether `shared: true` suffices; otherwise use `shared: {d0: N}`")


class KindFieldOut(BaseModel):
    """A part of a value of a structured parameter."""

    name: str
    type: str = Field(description="number, integer, switch, numbers (a list) or rows (a list of lists)")
    path: list[str] = Field(description="Where it is inside the value")
    title: str
    about: str
    default: bool | float | None = Field(description="What leaving it out means; null if there is no default")
    if_empty: str = Field(description="What leaving it out means, in words")
    start: Any = Field(description="A first value for a form")
    required: bool


class KindOut(Named):
    """A kind of value of a structured parameter."""

    template: Any = Field(description="What all its values contain beside the fields")
    fields: list[KindFieldOut]


class StructureOut(BaseModel):
    """A structured parameter or a part of it. Its numbers may be axes, named STRUCTURE.FIELD."""

    name: str = Field(description="Path in a spec")
    title: str
    kinds: list[KindOut] = Field(description="The first kind is the default")


class ParameterOut(BaseModel):
    """A parameter of a point."""

    name: str
    symbol: str
    latex: str
    long_name: str
    kind: str = Field(description="integer, number or text")
    default: int | float | str | None = Field(description="null if required or equal to another one")
    minimum: float | None
    maximum: float | None
    choices: list[str] = Field(description="Possible values of a text parameter")
    logarithmic: bool = Field(description="Whether its plot axes are logarithmic by default")


class PluginOut(BaseModel):
    name: str = Field(description="Its module")
    digest: str = Field(description="SHA-256 of its files, which is part of the keys of runs")
    entries: list[str] = Field(description="What it adds, such as `activation sine`")


class Catalogue(BaseModel):
    activations: list[Named]
    regimes: list[Named]
    observables: list[Option] = Field(description="`default` is true for those stored by default")
    inits: list[InitOut]
    structures: list[StructureOut] = Field(description="Structured parameters, how their values are written")
    parameters: list[str] = Field(description="Names that may be an axis or fixed, besides the regime")
    parameter_details: list[ParameterOut] = Field(description="The physical parameters of a point")
    regime_options: list[Option]
    formats: list[Named]
    views: list[Named]
    values: list[Named]
    plugins: list[PluginOut] = Field(description="Modules of the operator that have added entries")


class Health(BaseModel):
    status: str


class Ready(BaseModel):
    """All but the status only for callers with a token, if the service has tokens."""

    status: str
    version: str | None = None
    threads: int | None = Field(default=None, description="Worker threads")
    waiting: str | None = Field(default=None, description="Why no sweep can progress; empty if they can")
    refused: list[str] | None = Field(
        default=None, description="Workers that failed the worker check, with the reason"
    )


class WorkerOut(BaseModel):
    name: str
    host: str
    threads: int
    cpu_percent: float
    memory_bytes: int
    memory_limit_bytes: int | None
    tasks: int = Field(description="Tasks running or queued on this worker")


class Queue(BaseModel):
    """The queue of an unfinished sweep."""

    id: str
    name: str
    state: State
    priority: int
    bundles_under_way: int = Field(description="Bundles submitted to workers")
    bundles_left: int
    core_seconds_left: float


class ClusterOut(BaseModel):
    """The workers and the unfinished sweeps."""

    address: str = Field(description="Address of the scheduler; empty without one")
    threads: int
    waiting: str = Field(description="Why no sweep can progress; empty if they can")
    refused: list[str] = Field(description="Workers that failed the worker check, with the reason")
    dashboard: str | None = Field(description="Path of the Dask dashboard; null if unavailable")
    workers: list[WorkerOut]
    queue: list[Queue]


class Session(BaseModel):
    may_change: bool
