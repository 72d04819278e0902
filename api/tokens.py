"""The tokens of a service: how they are written, what they permit, and whose they are.

A token is written as `secret`, `secret:read` (read-only), `name=secret` or `name=secret:read`. The name is
shown as the owner of the sweeps that are submitted with it.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sweep_service.errors import InvalidInput

MIN_SECRET_CHARACTERS = 16
MAKE_TOKEN = "`openssl rand -hex 32` prints a good one"
_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9._-]{0,39})=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Token:
    secret: str = field(repr=False)
    may_change: bool
    name: str = ""


def parse_token(text: str) -> Token:
    """Parse one token. The padding of a Base64 secret is not taken for the end of a name."""
    named, is_base64 = _NAMED.fullmatch(text), len(text) >= MIN_SECRET_CHARACTERS and len(text) % 4 == 0
    if named and not (is_base64 and not named[2].strip("=")):
        return _parse_secret(named[2], named[1])
    return _parse_secret(text, "")


def _parse_secret(text: str, name: str) -> Token:
    return Token(text.removesuffix(":read"), not text.endswith(":read"), name)


def split_tokens(text: str) -> list[str]:
    """Split a list of tokens, separated by commas or line breaks."""
    return [token.strip() for token in re.split(r"[,\n]", text) if token.strip()]


def read_tokens_file(path: Path) -> str:
    """Return the content of a file of tokens, without comments (lines that begin with #)."""
    try:
        mode, text = path.stat().st_mode, path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise InvalidInput("tokens_file", str(path), f"cannot be read: {reason.lower()}") from None
    if stat.S_ISREG(mode) and mode & stat.S_IWOTH:
        raise InvalidInput("tokens_file", str(path), f"every user may change it: chmod 600 {path}")
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def describe_weaknesses(tokens: list[Token], path: Path | None) -> Iterator[str]:
    """Yield what is wrong with tokens that are accepted nevertheless."""
    if any(is_short(token) for token in tokens):
        yield f"a token is shorter than {MIN_SECRET_CHARACTERS} characters: {MAKE_TOKEN}"
    if path is not None:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode) and mode & stat.S_IROTH:
            yield f"every user of this machine may read the tokens in {path}: chmod 600 {path}"


def is_short(token: Token) -> bool:
    return len(token.secret) < MIN_SECRET_CHARACTERS
