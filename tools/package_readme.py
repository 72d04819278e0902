"""The README as the description of a package on an index, where relative links lead nowhere.

With `SWEEP_REPOSITORY_URL`, which the release workflow sets to the address that it runs at, relative links
and pictures become links to the files of this version there. Without it, as in a build from a copy, their
text stays, pictures are left out, and a sentence says where the files are.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[((?:[^\[\]]|!?\[[^\[\]]*\](?:\([^()]*\))?)*)\]\(([^()\s]+)\)")
PICTURE = re.compile(r"!\[[^\]]*\]\((?![a-z]+://)[^)]*\)")
FENCE = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)
NOTE = (
    "*Documents that this page names without a link, such as the tutorial, are in the folder `docs` of the "
    "source distribution.*\n"
)


def convert_readme(text: str, repository: str, version: str) -> str:
    """Return the README with links that work anywhere.

    Parameters
    ----------
    text
        The README, with links relative to the repository.
    repository
        Address of the repository, or "" if there is none.
    version
        Version whose tag the links shall name.
    """
    parts = FENCE.split(text)
    for index in range(0, len(parts), 2):  # the others are code
        prose = parts[index] if repository else _remove_pictures(parts[index])
        parts[index] = _convert_links(prose, repository.rstrip("/"), version)
    return "".join(parts) + ("" if repository else f"\n{NOTE}")


def _remove_pictures(text: str) -> str:
    """Leave out paragraphs with pictures of the repository, each with the caption that follows it."""
    kept: list[str] = []
    is_after_picture = False
    for paragraph in text.split("\n\n"):
        is_picture = PICTURE.search(paragraph) is not None
        is_caption = is_after_picture and paragraph.startswith("*")
        if not (is_picture or is_caption):
            kept.append(paragraph)
        is_after_picture = is_picture
    return "\n\n".join(kept)


def _convert_links(text: str, repository: str, version: str) -> str:
    def replace(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        label = _convert_links(label, repository, version)
        if "://" in target or target.startswith("#"):
            return f"{mark}[{label}]({target})"
        if not repository:
            return label
        kind = "raw" if mark else "blob"
        return f"{mark}[{label}]({repository}/{kind}/v{version}/{target})"

    return LINK.sub(replace, text)


class PackageReadme(MetadataHookInterface):
    """The hook that hatchling calls for the field `readme`."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, object]) -> None:
        """Set the description of the package."""
        root = Path(self.root)
        version = re.search(
            r'__version__ = "([^"]+)"', (root / "sweep_service/version.py").read_text("utf-8")
        )
        assert version is not None
        text = (root / "README.md").read_text("utf-8")
        repository = os.environ.get("SWEEP_REPOSITORY_URL", "")
        description = convert_readme(text, repository, version[1])
        metadata["readme"] = {"content-type": "text/markdown", "text": description}
