"""Rounds: a sweep of which stored results decide what is computed next.

Its arrays have room for all seeds that it may come to. A round says how many of them each point has; the runs
that no round chooses are skipped in the end. The first round follows from the spec, and every later one from
the values of the rounds before it and from nothing else, so a decision that is lost is taken again, alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep_service.numerics.types import AnyArray
from sweep_service.planning.grids import Grid
from sweep_service.planning.growth.target_error import PILOT
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind


@dataclass(frozen=True)
class Round:
    """The number of seeds of each point, with those of earlier rounds, and what decided it."""

    seeds: AnyArray
    basis: list[str]


@dataclass(frozen=True)
class Rounds:
    """The rounds of a sweep so far, and whether no other one follows."""

    rounds: tuple[Round, ...]
    is_complete: bool = False

    @classmethod
    def first(cls, grid: Grid) -> Rounds:
        """Return the round that follows from the spec: the pilot at all points."""
        return cls((Round(np.full(len(grid), grid.pilot), [PILOT] * len(grid)),))

    def append(self, round: Round, is_complete: bool) -> Rounds:
        return Rounds((*self.rounds, round), is_complete)

    def is_chosen(self, plan: SweepPlan, kind: Kind, number: int = -1) -> AnyArray:
        """Return which runs of a kind a round and those before it have chosen, by default the last.

        Theories are computed for the seeds of the pilot.
        """
        runs = plan.runs.table(kind)
        seeds = self.rounds[number].seeds if kind == "sgd" else self.rounds[0].seeds
        return runs.seed < seeds[runs.point]

    def restrict(self, plan: SweepPlan, numbers: Mapping[Kind, AnyArray]) -> dict[Kind, AnyArray]:
        """Return those of these runs that are chosen."""
        return {kind: some[self.is_chosen(plan, kind)[some]] for kind, some in numbers.items()}

    def to_json(self) -> dict[str, Any]:
        """Return what `<id>.rounds.json` holds."""
        rounds = [{"seeds": round.seeds.tolist(), "basis": round.basis} for round in self.rounds]
        return {"rounds": rounds, "is_complete": self.is_complete}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Rounds:
        rounds = (Round(np.array(item["seeds"], np.int64), list(item["basis"])) for item in content["rounds"])
        return cls(tuple(rounds), bool(content["is_complete"]))

    def summarise(self, plan: SweepPlan) -> list[dict[str, Any]]:
        """Return for each round the points and runs that it adds, and how many points each basis decided."""
        rows, before = [], {kind: np.zeros(plan.runs.count(kind), bool) for kind in plan.runs.kinds}
        for number, round in enumerate(self.rounds):
            chosen = {kind: self.is_chosen(plan, kind, number) for kind in plan.runs.kinds}
            added = {kind: chosen[kind] & ~before[kind] for kind in chosen}
            points = np.unique(np.concatenate([
                plan.runs.table(kind, np.flatnonzero(added[kind])).point for kind in added
            ]))  # fmt: skip
            rows.append({
                "number": number,
                "points": len(points),
                "runs": int(sum(np.count_nonzero(some) for some in added.values())),
                "seeds": int(round.seeds.sum()),
                "largest_seeds": int(round.seeds.max()),
                "basis": {name: round.basis.count(name) for name in dict.fromkeys(round.basis)},
            })  # fmt: skip
            before = chosen
        return rows
