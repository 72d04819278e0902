"""`python -m benchmarks [NAME...] [--quick]`: write JSON lines to a file and print a table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks.cases import CASES
from benchmarks.harness import Row, format_duration, format_table

OUTPUT = Path("bench-output") / "benchmark-results.jsonl"  # ignored by git


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named cases (all by default); returns 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(CASES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small sizes, without bars")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="file of JSON lines (%(default)s)")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(CASES))
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}: choose from {', '.join(CASES)}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    with open(options.output, "w", encoding="utf-8") as lines, threadpool_limits(1):
        for name in options.names or CASES:
            for row in CASES[name](options.quick):
                rows.append(row)
                json.dump(row.content(), lines, ensure_ascii=False, allow_nan=False)
                print(file=lines, flush=True)
                print(f"{row.name}: {format_duration(row.ours_seconds)}", file=sys.stderr)
    print(format_table(rows))
    print(f"\nThe same results as JSON lines: {options.output}")
    return int(any(row.passed is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
