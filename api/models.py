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
    phase_diagram: str
    dashboard: str
    page: str

    @classmethod
    def of(cls, sweep: str) -> Links:
        root = f"/v1/sweeps/{sweep}"
        own = ("spec", "zarr", "data", "events", "failures", "curves")
        return cls(
            **{name: f"{root}/{name}" for name in own},
            self=root, phase_diagram=f"{root}/phase-diagram", dashboard="/dask/status",
            page=f"/?sweep={sweep}",
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


class Named(BaseModel):
    """Something that a spec can name."""

    name: str
    about: str


class Catalogue(BaseModel):
    activations: list[Named]
    regimes: list[Named]
    observables: list[Named]
    inits: list[Named]
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


class Session(BaseModel):
    may_change: bool
