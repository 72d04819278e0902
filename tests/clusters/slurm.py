"""A queue that is none: `sbatch`, `squeue` and `scancel` on PATH, whose jobs are processes of this machine.

Scripts are run by bash as SLURM would run them, each in a group of processes of its own; there is no
partition, account or limit that would be looked at.
"""

import os
import signal
import stat
import sys
import time as clock
from pathlib import Path

SBATCH = """#!{python}
import os, shutil, subprocess, sys
queue, script = {queue!r}, sys.argv[-1]
number = 1 + len([name for name in os.listdir(queue) if name.endswith(".sh")])
kept = shutil.copy(script, f"{{queue}}/{{number}}.sh")
with open(f"{{queue}}/{{number}}.out", "wb") as out:
    job = subprocess.Popen(
        ["bash", kept], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
    )
open(f"{{queue}}/{{number}}.pid", "w").write(str(job.pid))
print(f"Submitted batch job {{number}}")
"""
SCANCEL = """#!{python}
import os, signal, sys
for number in sys.argv[1:]:
    try:
        os.killpg(int(open(f"{queue}/{{number}}.pid").read()), signal.SIGTERM)
    except ProcessLookupError:
        pass
"""
SQUEUE = """#!{python}
import os
for name in sorted(os.listdir({queue!r})):
    print(name.partition(".")[0]) if name.endswith(".pid") else None
"""


class Queue:
    def __init__(self, root):
        self.folder, self.bin = root / "queue", root / "bin"
        for folder in (self.folder, self.bin):
            folder.mkdir(parents=True)
        for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL), ("squeue", SQUEUE)):
            path = self.bin / name
            path.write_text(text.format(python=sys.executable, queue=str(self.folder)))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    @property
    def path(self):
        return f"{self.bin}{os.pathsep}{os.environ['PATH']}"

    def scripts(self):
        return sorted(self.folder.glob("*.sh"))

    def running(self):
        """Return the process groups of jobs that have not ended."""
        return [pid for pid in (int(path.read_text()) for path in self.folder.glob("*.pid")) if _lives(pid)]

    def said(self):
        return "\n".join(path.read_text() for path in self.folder.glob("*.out"))

    def close(self):
        for pid in self.running():
            os.killpg(pid, signal.SIGKILL)
        end = clock.monotonic() + 10.0
        while self.running() and clock.monotonic() < end:
            clock.sleep(0.05)


def _lives(group):
    """Whether a process group has a process that is not a zombie."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # the process has just ended
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            return True
    return False
