"""Write `recorded.json` and the kept data folder anew: `python -m tests.golden.record`.

For a commit that changes numbers on purpose, and says so; never to make a test pass.
"""

import json
import os
import signal
import tarfile
import tempfile
import time as clock
from pathlib import Path

from llvmlite import binding

from tests.cli.commands import fork_server
from tests.golden import cases, sweeps

RECORDED = Path(__file__).with_name("recorded.json")


def recorded(data):
    folder = make_folder(data / "folder")
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


def make_folder(parent):
    """A completed sweep, one whose process was killed, and one that was interrupted: their ids."""
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
    ids = {"killed": part.parent.stem, "interrupted": checkpoint.parent.stem}
    return {"complete": complete, **ids}


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
    with tempfile.TemporaryDirectory() as place:
        text = json.dumps(recorded(Path(place)), indent=1, sort_keys=True)
    RECORDED.write_text(text + "\n", "utf-8")
