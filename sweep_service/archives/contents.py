"""The names of the files in an archive, and the limits within which they are read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from sweep_service.errors import Damaged
from sweep_service.planning.spec_text import MAX_SPEC_BYTES

MANIFEST = "manifest-sha256.txt"
METADATA = "ro-crate-metadata.json"
README = "README.md"
CITATION = "CITATION.bib"
ENVIRONMENT = "environment.json"
DESCRIPTIONS = (METADATA, README, CITATION, ENVIRONMENT)  # for readers; an import does not open them
FIGURES = "figures"
SWEEPS = "sweeps"

MAX_FILES = 200_000
MAX_DIRECTORY_BYTES = 64 << 20  # of the zip file's own table of contents, which is read into memory
MAX_MANIFEST_BYTES = 64 << 20
MAX_STORED_SPEC_BYTES = 4 * MAX_SPEC_BYTES  # the stored form has all defaults
MAX_NOTES_BYTES = 1 << 17
MAX_DATASET_METADATA_BYTES = 16 << 20
MAX_RATIO = 100  # between the sizes of a file after and before decompression
MAX_SWEEPS = 1000
_LINE = re.compile(r"([0-9a-f]{64})  (\S(?:.{0,498}\S)?)")


def format_manifest(digests: Mapping[str, str]) -> bytes:
    """Format digests by name as a manifest, in the format of BagIt and `sha256sum`."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()


def parse_manifest(content: bytes) -> dict[str, str]:
    """Return the digests by name; raise Damaged if a line is malformed or a name is repeated."""
    digests: dict[str, str] = {}
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise Damaged(f"{MANIFEST} cannot be read: it is not UTF-8") from None
    if lines.pop() != "":
        raise Damaged(f"{MANIFEST} cannot be read: its last line is cut off")
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in digests:
            reason = "is no digest and name" if match is None else "repeats a name"
            raise Damaged(f"{MANIFEST} cannot be read: line {number} {reason}")
        digests[match[2]] = match[1]
    return digests


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
