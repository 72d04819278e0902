"""`ss.atlas`: the atlas of a data folder or of a service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweep_service.analysis.atlas.atlas import Atlas
    from sweep_service.client.remote_atlas import RemoteAtlas


def atlas(data_or_url: str | Path, token: str | None = None) -> Atlas | RemoteAtlas:
    """Open the atlas: all runs of a data folder or a service, to select from and to draw.

    Parameters
    ----------
    data_or_url
        A data folder, a path or an `s3://` URL, or the address of a service, such as
        `http://127.0.0.1:8000`.
    token
        Token of the service, if it requires one. By default `SWEEP_TOKEN`.

    Returns
    -------
    Atlas
        The runs as they are stored now; open it again to see later ones. Runs that are not finished are
        read from the datasets.
    """
    location = os.fspath(data_or_url)
    if location.startswith(("http://", "https://")):
        from sweep_service.client.remote_atlas import RemoteAtlas

        return RemoteAtlas.open(location, token)
    from sweep_service.analysis.atlas.folder import open_folder_atlas
    from sweep_service.store.folder import DataFolder

    return open_folder_atlas(DataFolder(data_or_url))
