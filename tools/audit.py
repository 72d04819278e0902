"""`make audit`: known vulnerabilities of what requirements.lock installs.

One that is found ends with 1. Where nobody can be asked, or knows a package, that is said plainly: it is no
fault of who works without a network, so it ends with 0; but in continuous integration (CI is set) with 1.
Further options are pip-audit's, such as --vulnerability-service osv or --ignore-vuln ID.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

COMMAND = [
    *(sys.executable, "-m", "pip_audit", "--requirement", "requirements.lock"),
    *("--disable-pip", "--no-deps", "--format", "json", "--progress-spinner", "off"),
]


def main(options: list[str]) -> int:
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):  # it could not even begin
        why = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        return unaudited(f"nothing of requirements.lock could be audited: {why}")
    harmful = [(one, flaw) for one in found for flaw in one.get("vulns", ())]
    for one, flaw in harmful:
        mended = ", ".join(flaw["fix_versions"]) or "no version yet"
        print(
            f"{one['name']} {one['version']}: {flaw['id']}, mended in {mended}: {flaw['description'][:200]}"
        )
    if harmful:
        return 1
    skipped = [one["name"] for one in found if "skip_reason" in one]
    if skipped or not found:
        names = ", ".join(skipped[:5]) + (", …" if len(skipped) > 5 else "")
        return unaudited(f"{len(skipped)} of {len(found)} packages could not be audited: {names}")
    print(f"no known vulnerability in {len(found)} packages")
    return 0


def unaudited(why: str) -> int:
    print(f"AUDIT NOT DONE: {why}", file=sys.stderr)
    return 1 if os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
