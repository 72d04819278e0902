"""The atlas of a service: the same methods as that of a data folder, answered by its REST routes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sweep_service.client.client import Client, to_query
from sweep_service.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow as pa  # type: ignore[import-untyped]
    import xarray as xr

    from sweep_service.analysis.atlas.atlas import Atlas

PATH = "/v1/atlas"


class RemoteAtlas:
    """All runs of a service, or those that a selection keeps. Every answer is of the present runs."""

    def __init__(self, client: Client, where: Mapping[str, Any] | None = None) -> None:
        self._client, self.where = client, dict(where or {})

    @classmethod
    def open(cls, url: str, token: str | None = None) -> RemoteAtlas:
        """Connect to a service, whose address may be that of the atlas itself."""
        return cls(Client(url.rstrip("/").removesuffix(PATH), token))

    def __len__(self) -> int:
        return int(self.facets()["runs"])

    def __repr__(self) -> str:
        facets = self.facets()
        return f"<atlas of {self._client.url}: {facets['runs']} runs of {facets['sweeps']} sweeps>"

    def select(self, /, **where: Any) -> RemoteAtlas:
        """Keep the runs with these labels; see `Atlas.select`. A label can be selected once."""
        for name in where.keys() & self.where.keys():
            raise InvalidInput(name, where[name], f"is selected already, as {self.where[name]}")
        texts = {name: _slice_text(name, wanted) for name, wanted in where.items()}
        selected = RemoteAtlas(self._client, {**self.where, **texts})
        selected.facets()  # raises the error of the service
        return selected

    def facets(self) -> dict[str, Any]:
        """Count the selected runs by the values of each label; see `Atlas.facets`."""
        return self._get("", {})

    def table(self, by_sweep: bool = False) -> pa.Table:
        """The selected runs as a table of Arrow, with the columns of an index; see `Atlas.table`."""
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
            file = Path(folder) / "runs.parquet"
            self.write_table(file, "parquet", by_sweep)
            return pq.read_table(file)

    def write_table(self, path: Path, format: str, by_sweep: bool = False) -> None:
        """Download the selected runs as a file, `csv` or `parquet`."""
        query = {"format": format, "by_sweep": str(by_sweep).lower(), **to_query(self.where)}
        self._client.download(f"{PATH}/runs", query, path)

    def compute_view(self, view: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Compute the numbers of a view of the atlas: phase-diagram, triangle or curves."""
        return self._get(f"/{quote(view, safe='')}", options)

    def figure(self, path: str | Path, view: str = "phase-diagram", /, **options: Any) -> Path:
        """Download a view of the atlas as a figure, `.png`, `.svg` or `.pdf`, which the service draws."""
        output = Path(path)
        temporary = output.with_name(f".{output.name}.part")
        query = to_query({"format": output.suffix.removeprefix(".").lower(), **self.where, **options})
        try:
            self._client.download(f"{PATH}/{quote(view, safe='')}", query, temporary)
            temporary.replace(output)
        finally:
            temporary.unlink(missing_ok=True)
        return output

    def frame(self) -> pd.DataFrame:
        """The selected runs as a table of pandas; see `Atlas.frame`."""
        return self._download().frame()

    def dataset(
        self,
        times: Sequence[float] | None = None,
        *,
        observables: Sequence[str] | None = None,
        by_sweep: bool = False,
    ) -> xr.Dataset:
        """Load the selected runs as one labelled dataset; see `Atlas.dataset`."""
        return self._download(by_sweep).dataset(times, observables=observables, by_sweep=by_sweep)

    def phase_diagram(
        self, /, x: str = "", y: str = "", value: str = "sgd_risk", **where: Any
    ) -> xr.DataArray:
        """Evaluate a value on two labels; see `Atlas.phase_diagram`."""
        return self._download().phase_diagram(x, y, value, **where)

    def triangle(self, /, value: str = "sgd_risk", **where: Any) -> xr.DataArray:
        """Evaluate a value on the triangle of limits; see `Atlas.triangle`."""
        return self._download().triangle(value, **where)

    def curves(
        self, /, observable: str = "risk", time: str = "t", by_sweep: bool = False, **where: Any
    ) -> dict[str, Any]:
        """Compute an observable over time for each selected point; see `Atlas.curves`."""
        options = {"observable": observable, "time": time, "by_sweep": str(by_sweep).lower()}
        return self.compute_view("curves", {**options, **where})

    def _get(self, path: str, options: Mapping[str, Any]) -> dict[str, Any]:
        texts = {name: _slice_text(name, wanted) for name, wanted in options.items()}
        return self._client.get_json(f"{PATH}{path}", to_query({**self.where, **texts}))

    def _download(self, by_sweep: bool = False) -> Atlas:
        """The selected runs as an atlas here, whose curves are read from the service when they are needed."""
        from sweep_service.analysis.atlas.atlas import Atlas
        from sweep_service.analysis.atlas.runs import Runs

        return Atlas(Runs.of([self.table(by_sweep)]), self._open)

    @contextmanager
    def _open(self, sweep_id: str) -> Iterator[xr.Dataset]:
        with self._client.open(sweep_id) as dataset:
            yield dataset


def _slice_text(name: str, wanted: Any) -> Any:
    """A slice as the text of a range; other values as they are."""
    from sweep_service.analysis.atlas.selection import range_text

    return range_text(name, wanted) if isinstance(wanted, slice) else wanted
