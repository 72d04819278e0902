"""Names of things derived from their content: canonical JSON, keys and random streams.

Randomness never comes from global state or from a position in a grid, so adding or reordering
points changes no other point, and running one again gives the same numbers.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np


def canonical(value: Any) -> Any:
    """Plain JSON types with one spelling: NumPy scalars and arrays unwrapped, whole floats kept floats."""
    if isinstance(value, dict):
        return {str(key): canonical(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    if isinstance(value, np.ndarray):
        return canonical(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    return value


@dataclass(frozen=True)
class Key:
    """A digest of content, at full precision, from which streams are seeded."""

    digest: str

    @classmethod
    def of(cls, **content: Any) -> Key:
        text = json.dumps(canonical(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return cls(hashlib.sha256(text.encode()).hexdigest())

    def seed_sequence(self, purpose: str) -> np.random.SeedSequence:
        words = hashlib.sha256(f"{self.digest}/{purpose}".encode()).digest()
        return np.random.SeedSequence(np.frombuffer(words, dtype="<u4").tolist())


def stream(key: Key, purpose: str) -> np.random.Generator:
    """An independent generator for one purpose of one key."""
    return np.random.Generator(np.random.SFC64(key.seed_sequence(purpose)))
