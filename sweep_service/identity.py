"""Identity derived from content: canonical JSON, keys and random streams.

Randomness never comes from global state or from a position in a grid, so adding or reordering
points changes no other point, and repeating a run gives the same numbers.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Key:
    """A digest of content at full precision. It seeds random streams."""

    digest: str

    @classmethod
    def of(cls, **content: Any) -> Key:
        text = json.dumps(canonicalise(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return cls(hashlib.sha256(text.encode()).hexdigest())

    def seed_sequence(self, purpose: str) -> np.random.SeedSequence:
        seed = hashlib.sha256(f"{self.digest}/{purpose}".encode()).digest()
        return np.random.SeedSequence(np.frombuffer(seed, dtype="<u4").tolist())


def stream(key: Key, purpose: str) -> np.random.Generator:
    """Return an independent random generator for one purpose of one key."""
    return np.random.Generator(np.random.SFC64(key.seed_sequence(purpose)))
