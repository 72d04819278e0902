"""Write `recorded.json` anew: `python -m tests.golden.record`, with `--folder` also the kept data folder.

For a commit that changes numbers on purpose, and says so; never to make a test pass. The folder stays, so
that data folders of older versions are opened and resumed.
"""

import json
import os
import signal
import sys
import tarfile
import tempfile
import time as clock
from pathlib import Path

from llvmlite import binding

from tests.cli.commands import fork_server
from tests.golden import cases, sweeps

RECORDED = Path(__file__).with_name("recorded.json")


def record_all(data, folder):
    return {
        "cpu": binding.get_host_cpu_name(),
        "simulations": cases.simulated(),
        "integrations": cases.integrated(),
        "sweeps": {
            name: sweeps.stored(sweeps.run(data / name, spec)["path"]) for name, spec in sweeps.SPECS.items()
        },
        "killed": sweeps.stored(sweeps.run(data / "killed", sweeps.KILLED)["path"]),
        "interrupted": sweeps.stored(sweeps.run(data / "interrupted", sweeps.INTERRUPTED)["path"]),
        "folder": folder,
        "session": sweeps.session(data / "served"),
        "commands": sweeps.commands(data),
    }


def record_folder(parent):
    """Keep a completed sweep, one whose process was killed, and one that was interrupted."""
    parent.mkdir()
    data = parent / "data"
    complete = sweeps.run(data, sweeps.SPECS["product"])["id"]
    interrupted = begin(data, sweeps.INTERRUPTED)
    while not list(data.glob("sweeps/*.parts/*.crumb")):
        clock.sleep(0.01)
    clock.sleep(0.5)
    interrupted.kill(signal.SIGINT)
    interrupted.wait()
    (checkpoint,) = data.glob("sweeps/*.parts/*.checkpoint")
    killed = begin(data, sweeps.KILLED, SWEEP_FAULT="task:part")  # last: a start would merge its part
    assert killed.wait().code == -signal.SIGKILL
    (part,) = data.glob("sweeps/*.parts/*.npz")
    with tarfile.open(sweeps.FOLDER, "w:xz") as archive:
        archive.add(data, "data", filter=_anonymous)
    ids = {"complete": complete, "killed": part.parent.stem, "interrupted": checkpoint.parent.stem}
    stored = sweeps.stored(data / "sweeps" / f"{complete}.zarr")
    return {"cpu": binding.get_host_cpu_name(), "ids": ids, "complete": stored}


def begin(data, spec, **environment):
    return fork_server().start(
        data.parent, "run", "-", "--no-figure", "--data", data, text=spec, env=environment
    )


def _anonymous(member):
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary)
        folder = json.loads(RECORDED.read_text("utf-8"))["folder"]
        if "--folder" in sys.argv[1:]:
            folder = record_folder(data / "folder")
        text = json.dumps(record_all(data, folder), indent=1, sort_keys=True)
    RECORDED.write_text(text + "\n", "utf-8")
