"""`make audit`: check the packages of requirements.lock for known vulnerabilities.

The exit code is 1 if a vulnerability is found. An audit that cannot be made, for example without a network,
is reported; the exit code is then 0, but 1 in continuous integration (if CI is set). Further options are
passed to pip-audit, such as --vulnerability-service osv or --ignore-vuln ID.
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
    audit = subprocess.run([*COMMAND, *options], capture_output=True, text=True)
    try:
        packages = json.loads(audit.stdout)["dependencies"]
    except (ValueError, KeyError):  # pip-audit failed before it wrote a report
        reason = (audit.stderr.strip().splitlines() or ["no reason was given"])[-1]
        return report_missing_audit(f"requirements.lock could not be audited: {reason}")
    vulnerable = [(package, flaw) for package in packages for flaw in package.get("vulns", ())]
    for package, flaw in vulnerable:
        fixed_in = ", ".join(flaw["fix_versions"]) or "no version yet"
        title = f"{package['name']} {package['version']}: {flaw['id']}"
        print(f"{title}, fixed in {fixed_in}: {flaw['description'][:200]}")
    if vulnerable:
        return 1
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if skipped or not packages:
        names = ", ".join(skipped[:5]) + (", …" if len(skipped) > 5 else "")
        return report_missing_audit(
            f"{len(skipped)} of {len(packages)} packages could not be audited: {names}"
        )
    print(f"no known vulnerabilities in {len(packages)} packages")
    return 0


def report_missing_audit(reason: str) -> int:
    """Report that the audit was not made, and return the exit code."""
    print(f"AUDIT NOT DONE: {reason}", file=sys.stderr)
    return 1 if os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
