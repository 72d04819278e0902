"""Identity derived from content: canonical JSON, keys and random streams.

Randomness never comes from global state or from a position in a grid, so adding or reordering
points changes no other point, and repeating a run gives the same numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np


def canonicalise(value: Any) -> Any:
    """Convert to plain JSON types: NumPy scalars and arrays become numbers and lists, keys are sorted.

    Floats with a whole value stay floats.
    """
    if isinstance(value, dict):
        return {str(key): canonicalise(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [canonicalise(item) for item in value]
    if isinstance(value, np.ndarray):
        return canonicalise(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    return value


def canonical_json(value: Any) -> str:
    """Return the text that keys digest."""
    return json.dumps(canonicalise(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


class KeyTemplate:
    """The keys of many contents that differ only in some entries.

    The canonical text of a mapping is the texts of its entries, so that those of equal entries are made once.
    `varying` names the entries that differ; those that the content does not have are left out.
    """

    def __init__(self, content: Mapping[str, Any], varying: Iterable[str]) -> None:
        names = sorted(set(content) | set(varying))
        self.varying = [name for name in names if name in set(varying)]
        self._separators, text = [], "{"
        for name in names:
            text += f"{canonical_json(name)}:"
            if name in self.varying:
                self._separators.append(text)
                text = ","
            else:
                text += f"{canonical_json(content[name])},"
        self._end = f"{text.removesuffix(',')}}}"

    def digests(self, texts: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """Yield the digest of each content; `texts` has the canonical texts of the entries that vary."""
        columns: list[Iterable[str]] = []
        for separator, name in zip(self._separators, self.varying, strict=True):
            columns += [repeat(separator), texts[name]]
        for text in map("".join, zip(*columns, repeat(self._end), strict=False)):
            yield hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Key:
    """A digest of content at full precision. It seeds random streams."""

    digest: str

    @classmethod
    def of(cls, **content: Any) -> Key:
        return cls(hashlib.sha256(canonical_json(content).encode()).hexdigest())

    def seed_sequence(self, purpose: str) -> np.random.SeedSequence:
        seed = hashlib.sha256(f"{self.digest}/{purpose}".encode()).digest()
        return np.random.SeedSequence(np.frombuffer(seed, dtype="<u4").tolist())


def stream(key: Key, purpose: str) -> np.random.Generator:
    """Return an independent random generator for one purpose of one key."""
    return np.random.Generator(np.random.SFC64(key.seed_sequence(purpose)))
