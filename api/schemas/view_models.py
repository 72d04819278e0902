"""The JSON of views, as documented by OpenAPI: curves, phase diagrams, the triangle, and labelled arrays.

The responses themselves are the plain data of `analysis.views`; a test compares them with these models.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Numbers = list[float | None]  # a value that is not finite is null
Coordinates = dict[str, int | float | str]


class ViewModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Quantity(ViewModel):
    name: str
    long_name: str
    units: str


class CurveOut(ViewModel):
    """A curve of SGD or of a regime at a point."""

    source: Literal["sgd", "ode"]
    regime: str | None = Field(default=None, description="The regime, if the source is ode")
    at: Coordinates = Field(description="Values of the axes that have several")
    runs: int = Field(description="Runs that have ended")
    x: Numbers | None = Field(default=None, description="Times in the unit of `time_axis`, if that is not t")
    mean: Numbers
    low: Numbers = Field(description="16th percentile of the runs")
    high: Numbers = Field(description="84th percentile of the runs")
    predicted: dict[str, Numbers] | None = Field(
        default=None, description="Mean and band of 95 % of the runs of SGD that the theory predicts"
    )
    validity: list[str] | None = Field(
        default=None, description="At each time: holds, off, nonlinear or unknown"
    )
    overall: str | None = Field(default=None, description="The validity at all times together")


class Curves(ViewModel):
    """An observable against time."""

    observable: str
    long_name: str
    units: str
    fixed: Coordinates = Field(description="Parameters with one value")
    time: Numbers
    time_axis: Quantity | None = Field(default=None, description="Unit of time, if it is not t")
    band: list[float] | None = Field(default=None, description="Ends of the band of 95 % of z-scores")
    curves: list[CurveOut]


class SeedCurve(ViewModel):
    """The number of seeds at a point: measured (sgd) or predicted (ode)."""

    source: Literal["sgd", "ode"]
    regime: str | None = None
    at: Coordinates
    runs: int
    draws: int | None = Field(default=None, description="Independent runs that the error refers to")
    error: Numbers | None = Field(default=None, description="Relative error of the mean over all draws")
    mean: Numbers
    low: Numbers = Field(description="Lower end of the 95 % interval")
    high: Numbers = Field(description="Upper end of the 95 % interval")
    nonlinearity: Numbers | None = Field(
        default=None, description="Above 0.3 the predicted numbers are lower bounds"
    )


class SeedCurves(ViewModel):
    """The number of seeds that an accuracy needs, against time."""

    observable: str
    long_name: str
    units: str
    value: str
    relative_error: float
    draws_are: str = Field(description="seeds or repeats")
    fixed: Coordinates
    time: Numbers
    curves: list[SeedCurve]


class DiagramAxis(Quantity):
    values: list[int | float | str] | None = Field(default=None, description="In a grid: along this axis")


class DiagramValue(Quantity):
    values: list[list[float | str | None]] | None = Field(
        default=None, description="In a grid: rows over y, columns over x"
    )
    standard_error: list[Numbers] | None = None
    runs: list[list[int]] | None = Field(default=None, description="Runs behind each value")


class DiagramPoint(ViewModel):
    """A point of a diagram whose points form no grid."""

    x: float | str | None
    y: float | str | None
    value: float | str | None
    standard_error: float | None = None
    runs: int | None = None


class PhaseDiagram(ViewModel):
    """A value on two axes, as a grid or, if the points form none, as points."""

    form: Literal["grid", "points"]
    x: DiagramAxis
    y: DiagramAxis
    value: DiagramValue
    at: dict[str, Any] = Field(description="Values of the other axes")
    fixed: Coordinates
    reduced: dict[str, Any] = Field(description="How other axes were reduced, such as to their mean")
    points: list[DiagramPoint] | None = None


class TrianglePoint(ViewModel):
    """A point of the triangle of limits: its parameters, its barycentric coordinates, and the value."""

    d: float
    p: float
    gamma: float
    u_d: float
    u_p: float
    u_gamma: float
    auto_regime: str
    value: float | str | None
    standard_error: float | None = None
    runs: int | None = None


class TriangleOut(ViewModel):
    """A value on the triangle of limits."""

    form: Literal["triangle"]
    value: Quantity
    at: dict[str, Any]
    fixed: Coordinates
    reduced: dict[str, Any] = Field(description="How other axes were reduced, such as to their mean")
    delta_t: float
    points: list[TrianglePoint]


class LabelledArray(BaseModel):
    """An array with its dimensions, as `xarray.DataArray.from_dict` reads it."""

    dims: list[str]
    data: Any
    attrs: dict[str, Any]


class Arrays(BaseModel):
    """The numbers of the other views: labelled arrays, as `xarray.Dataset.from_dict` reads them.

    A view of a single array has `dims`, `data` and `name`; one of several has them in `data_vars`.
    """

    coords: dict[str, LabelledArray]
    attrs: dict[str, Any]
    data_vars: dict[str, LabelledArray] | None = None
    dims: dict[str, int] | list[str]
    data: Any = None
    name: str | None = None
