"""`python -m benchmarks [NAME...] [--quick]`: JSON lines into a file, a table for people."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks.cases import CASES
from benchmarks.harness import Row, duration, table

OUTPUT = Path("bench-output") / "benchmark-results.jsonl"  # ignored by git


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named cases (all by default); 1 where a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, without bars")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="JSON lines (%(default)s)")
    chosen = parser.parse_args(arguments)
    unknown = sorted(set(chosen.names) - set(CASES))
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}: choose from {', '.join(CASES)}")
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    with open(chosen.output, "w", encoding="utf-8") as lines, threadpool_limits(1):
        for name in chosen.names or CASES:
            for row in CASES[name](chosen.quick):
                rows.append(row)
                json.dump(row.content(), lines, ensure_ascii=False, allow_nan=False)
                print(file=lines, flush=True)
                print(f"{row.name}: {duration(row.ours_seconds)}", file=sys.stderr)
    print(table(rows))
    print(f"\n{chosen.output} holds the same as JSON lines.")
    return int(any(row.passed is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
