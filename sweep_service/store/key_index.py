"""An index of run keys in memory, which tells quickly that a sweep shares no run with another one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

import numpy as np

from sweep_service.numerics.types import AnyArray
from sweep_service.planning.runs import Kind

MAX_INDEXED_RUNS = 8_000_000  # eight bytes each

Keys = Mapping[Kind, AnyArray]


class KeyIndex:
    """The first eight bytes of the run keys of sweeps, sorted. `read_keys` reads the keys of a sweep."""

    def __init__(self, read_keys: Callable[[str], Keys]) -> None:
        self._read_keys = read_keys
        self._prefixes: OrderedDict[str, AnyArray] = OrderedDict()  # by sweep id, the oldest first
        self._run_count = 0

    def may_share(self, sweep_id: str, prefixes: AnyArray) -> bool:
        """Return False if no key with one of these prefixes is among those of a sweep."""
        theirs = self._prefixes.get(sweep_id)
        if theirs is None:
            theirs = self._add(sweep_id)
        if not len(theirs):
            return False
        positions = np.minimum(np.searchsorted(theirs, prefixes), len(theirs) - 1)
        return bool(np.any(theirs[positions] == prefixes))

    def _add(self, sweep_id: str) -> AnyArray:
        prefixes = key_prefixes(self._read_keys(sweep_id))
        self._prefixes[sweep_id] = prefixes
        self._run_count += len(prefixes)
        while self._run_count > MAX_INDEXED_RUNS:
            self._run_count -= len(self._prefixes.popitem(last=False)[1])
        return prefixes

    def forget(self, sweep_id: str) -> None:
        """Drop a sweep whose keys are written anew, or removed."""
        self._run_count -= len(self._prefixes.pop(sweep_id, ()))


def key_prefixes(keys: Keys) -> AnyArray:
    """Return the first eight bytes of all keys as sorted integers."""
    return np.sort(
        np.concatenate([np.frombuffer(kind.tobytes(), dtype="<u8")[::2] for kind in keys.values()])
    )
