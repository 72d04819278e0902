"""`python -m validation [SECTION...]`: compute all rows and write the document, or print some sections."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from validation.document import DOCUMENT, SECTIONS, render_document
from validation.row import render_table


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute the named sections (all by default); returns 1 if a number is outside its bound."""
    parser = argparse.ArgumentParser(prog="python -m validation", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="SECTION", help=f"one of {', '.join(SECTIONS)}")
    parser.add_argument("--output", type=Path, default=DOCUMENT, help="the document (%(default)s)")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(SECTIONS))
    if unknown:
        parser.error(f"unknown section {', '.join(unknown)}: choose from {', '.join(SECTIONS)}")
    tables = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or SECTIONS:
            tables[name] = list(SECTIONS[name].make_rows(Path(folder)))
            print(f"{name}: {len(tables[name])} rows", file=sys.stderr)
    outside = [row for table in tables.values() for row in table if not row.passed]
    if options.names:
        print("\n".join(line for table in tables.values() for line in render_table(table)))
    else:
        options.output.write_text(render_document(tables), "utf-8")
        print(f"{options.output}: {len(outside)} rows are outside their bounds")
    return int(bool(outside))


if __name__ == "__main__":
    sys.exit(main())
