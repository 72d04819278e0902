"""Text objects with a digest in their last line, so that a changed bit is an error and not another text.

The line is a comment in YAML: a stored spec can still be submitted as it is.
"""

from __future__ import annotations

import hashlib

_MARK = b"\n# sha256 "


def seal(content: bytes) -> bytes:
    """Append the digest of the content."""
    return content + _MARK + hashlib.sha256(content).hexdigest().encode() + b"\n"


def unseal(sealed: bytes) -> bytes:
    """Return the content; raise ValueError if it does not fit its digest. Older objects have none."""
    content, mark, _ = sealed.rpartition(_MARK)
    if not mark:
        return sealed
    if seal(content) != sealed:
        raise ValueError("its checksum is wrong")
    return content
