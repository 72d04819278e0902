"""Plugins: how they are loaded, and runs with their entries on all kinds of workers."""

import shutil
import subprocess
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import sweep_service as ss
from sweep_service import by_value, plugins
from sweep_service.analysis.point_values import VALUES
from sweep_service.by_value import entry_version
from sweep_service.errors import InvalidInput
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.execution.submission import Submission
from sweep_service.model.activations import ACTIVATIONS, Activation
from sweep_service.planning.spec import SweepSpec
from sweep_service.plugins import digest_files, load_plugins
from sweep_service.registries import REGISTRIES
from sweep_service.store.folder import DataFolder
from sweep_service.workers.embedded import Embedded
from sweep_service.workers.executor import DaskExecutor
from tests.service import start_service
from tests.workers.processes import free_port, processes
from tests.workers.test_executor import until

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin"
PACKAGE = "sweep_plugin_example"
TIMES = {"max": 0.4, "samples": 4}
SPEC = {
    "axes": {"d": [6], "p": 2, "gamma": [0.2], "activation": ["erf", "gelu"], "regime": "classical"},
    "fixed": {"k": 2},
    "init": {"kind": "half_way", "share": 0.3},
    "observables": ["risk", "smallest_norm"],
    "seeds": 2,
    "time": TIMES,
}
# Without entries of the plugin apart from the activation, so that runs with erf have the keys of the package.
ACTIVATION_SPEC = {**SPEC, "init": {"kind": "informed"}, "observables": ["risk"]}
POINT = {"d": 6, "p": 2, "k": 2, "gamma": 0.2}


@pytest.fixture(autouse=True)
def registries(monkeypatch):
    """Restore the registries and forget the plugins that a test has loaded."""
    monkeypatch.delenv(plugins.VARIABLE, raising=False)
    saved, modules = {kind: dict(entries) for kind, entries in REGISTRIES.items()}, set(sys.modules)
    monkeypatch.setattr(plugins, "_loaded", {})
    yield
    for kind, entries in saved.items():
        REGISTRIES[kind].clear()
        REGISTRIES[kind].update(entries)
    for name in set(sys.modules) - modules:
        if name.partition(".")[0] in (PACKAGE, "lab"):
            del sys.modules[name]


@pytest.fixture
def edition(tmp_path, monkeypatch):
    """Load a copy of the example, and again after an edit."""
    shutil.copytree(EXAMPLE / PACKAGE, tmp_path / "site" / PACKAGE)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv(plugins.VARIABLE, PACKAGE)

    def load(old="", new=""):
        file = tmp_path / "site" / PACKAGE / "activation.py"
        file.write_text(
            file.read_text("utf-8").replace(old, new) if old else file.read_text("utf-8"), "utf-8"
        )
        forget_plugins()
        return load_plugins()[PACKAGE]

    load.environment = {plugins.VARIABLE: PACKAGE, "PYTHONPATH": str(tmp_path / "site")}
    load.folder = tmp_path / "site"
    return load


def forget_plugins():
    """Do what a new process does: no plugin is imported, and there are no compiled files of old sources."""
    for plugin in plugins._loaded.values():
        for kind, name in plugin.entries:
            REGISTRIES[kind].pop(name, None)
    plugins._loaded.clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        file = Path(sys.modules.pop(name).__file__)
        shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)


def write_module(tmp_path, monkeypatch, text):
    (tmp_path / "lab.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(plugins.VARIABLE, "lab")


ACTIVATION_MODULE = """
import numpy as np
from sweep_service.model.activations import ACTIVATIONS, Activation
ACTIVATIONS["NAME"] = Activation("NAME", "sin(x)", np.sin, np.cos, lambda x: -np.sin(x), odd=True)
"""


# ---- loading


def test_installed_plugin_is_loaded_by_its_entry_point(tmp_path):
    """`pip install examples/plugin`, here into a folder that is then on the path."""
    uv = Path(sys.executable).with_name("uv")
    command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", tmp_path / "site",
               "--no-deps", "--no-build-isolation", "--offline", EXAMPLE]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, text=True)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "import sweep_service as ss\n"
        "from sweep_service.plugins import describe_plugins\n"
        f"ds = ss.integrate({ {**POINT, 'activation': 'gelu'}!r}, times=[0, 1], regime='classical')\n"
        "print(sorted(describe_plugins()[0]['entries']), float(ds.risk[0]) > float(ds.risk[1]))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    entries = ["activation gelu", "init half_way", "observable smallest_norm", "value sgd_gain"]
    assert answer.stdout == f"{entries} True\n", answer.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must add an entry"),
        ("raise RuntimeError('not today')", "cannot be imported: RuntimeError: not today"),
        ("import no_such_module", "cannot be imported: ModuleNotFoundError"),
        (ACTIVATION_MODULE.replace("NAME", "erf"), "replaces the activation 'erf'"),
        (ACTIVATION_MODULE.replace("NAME", "no name"), "must be an identifier"),
        (ACTIVATION_MODULE.replace('"NAME"]', '"other"]'), "must be an identifier, and the entry's own"),
        ("from sweep_service.model.initial import INITS\nINITS['x'] = 1", "must be a InitKind"),
        (
            "from sweep_service.model.observables import OBSERVABLES, Observable\n"
            "OBSERVABLES['x'] = Observable('x', '', len, default=True)",
            "with default=True",
        ),
        (
            "from sweep_service.dynamics.regimes import REGIMES\nREGIMES['x'] = REGIMES['classical']",
            "may add only",
        ),
    ],
)
def test_wrong_plugin_is_refused_and_changes_nothing(tmp_path, monkeypatch, text, message):
    before = {kind: dict(entries) for kind, entries in REGISTRIES.items()}
    write_module(tmp_path, monkeypatch, text)
    with pytest.raises(InvalidInput, match="plugin = 'lab'") as error:
        load_plugins()
    assert message in str(error.value)
    assert before == REGISTRIES
    assert VALUES is REGISTRIES["value"]
    assert plugins._loaded == {}


def test_missing_plugin_is_named_by_every_command(tmp_path):
    command = [sys.executable, "-m", "sweep_service", "list"]
    answer = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PATH": "", plugins.VARIABLE: "no_such_plugin"},
    )  # fmt: skip
    assert answer.returncode == 2
    assert answer.stderr == "sweep: plugin = 'no_such_plugin': is not installed, or not on PYTHONPATH\n"


def test_digest_is_that_of_all_files(edition):
    first = edition().digest
    assert edition().digest == first
    assert edition("2.0 - x * x", "2.00 - x * x").digest != first
    second = digest_files(PACKAGE)
    (edition.folder / PACKAGE / "helper.py").write_text("SCALE = 1.0\n")
    assert digest_files(PACKAGE) not in (first, second)


def test_catalogue_and_values_have_the_entries(edition):
    edition()
    catalogue = import_module("sweep_service.api.routes.catalogue").catalogue()
    assert [plugin.name for plugin in catalogue.plugins] == [PACKAGE]
    for entries, name in (
        (catalogue.activations, "gelu"),
        (catalogue.inits, "half_way"),
        (catalogue.observables, "smallest_norm"),
        (catalogue.values, "sgd_gain"),
        (catalogue.structures[0].kinds, "half_way"),  # of the form of the page
    ):
        assert name in [entry.name for entry in entries]


def test_doctor_lists_plugins(edition, tmp_path):
    plugin = edition()
    (check,) = import_module("sweep_service.doctor.checks.machine").check_plugins(DataFolder(tmp_path))
    assert check.found.startswith(f"{PACKAGE} ({plugin.digest[:8]}) adds activation gelu, ")


@pytest.mark.parametrize("name", ["activation", "plugins"])
def test_spec_cannot_name_a_module(edition, name):
    """A module on the path is imported by the operator's choice only."""
    with pytest.raises(InvalidInput):
        Submission.read({**ACTIVATION_SPEC, "fixed": {"k": 2, name: PACKAGE}})
    assert PACKAGE not in sys.modules


# ---- runs


def assert_equals_simulate(dataset, spec=SPEC):
    """Every stored SGD run is that of `ss.simulate`, and every ODE run that of `ss.integrate`, to the bit."""
    for name in ("sgd_status", "ode_status"):
        assert set(dataset[name].values.ravel()) == {1}
    for activation in dataset.activation.values:
        options = {"times": dataset.time.values, "observables": spec["observables"], "seed": [0, 1]}
        point = {**POINT, "activation": str(activation), "init": spec["init"]}
        sgd, ode = ss.simulate(point, **options), ss.integrate(point, regime="classical", **options)
        stored = dataset.sel(activation=activation).squeeze(["d", "p", "gamma", "regime", "repeat"])
        for observable in spec["observables"]:
            np.testing.assert_array_equal(stored[f"sgd_{observable}"], sgd[observable])
            np.testing.assert_array_equal(stored[f"ode_{observable}"], ode[observable])


def test_sweep_on_an_embedded_cluster(edition, tmp_path):
    edition()
    with ss.run(SPEC, data=tmp_path / "data", workers=1) as dataset:
        assert_equals_simulate(dataset)
        assert dataset.sweep.phase_diagram(x="gamma", y="p", value="sgd_gain", activation="gelu").size == 1


@pytest.mark.slow
def test_sweep_on_remote_workers(edition, tmp_path):
    """A worker without the plugin and one with another edition leave with the reason."""
    edition()
    other = tmp_path / "other"
    shutil.copytree(edition.folder, other)
    (other / PACKAGE / "helper.py").write_text("")
    port = free_port()
    with processes(tmp_path) as group:
        group.scheduler(port)
        group.worker(port, env={plugins.VARIABLE: ""})
        group.worker(port, env={plugins.VARIABLE: PACKAGE}, path=other)
        with closing_executor(tmp_path / "first", port) as executor:
            until(lambda: executor.refresh() or len(executor.refusals) == 2)
            reasons = sorted(refusal["why"] for refusal in executor.refusals)
        assert reasons[0].startswith(f"it does not have the plugin {PACKAGE}: install it")
        assert reasons[1].startswith(f"its plugin {PACKAGE} differs from that of the service")
        group.worker(port, env={plugins.VARIABLE: PACKAGE}, path=edition.folder)
        address = f"tcp://127.0.0.1:{port}"
        with ss.run(SPEC, data=tmp_path / "data", scheduler=address) as dataset:
            assert_equals_simulate(dataset)


@contextmanager
def closing_executor(data, port):
    from sweep_service.workers.cluster import Remote

    folder = DataFolder(data)
    folder.objects.prepare()
    executor = DaskExecutor(Remote(f"tcp://127.0.0.1:{port}"), folder)
    try:
        yield executor
    finally:
        executor.close()


@pytest.mark.slow
def test_sweep_over_rest(edition, tmp_path):
    edition()
    service = start_service(tmp_path / "data", workers=1, env=edition.environment)
    try:
        with ss.Client(service.url) as client:
            sweep = client.wait(client.submit(SPEC)["id"], progress=False)
            assert sweep["state"] == "completed"
            with client.open(sweep["id"]) as dataset:
                assert_equals_simulate(dataset.load())
    finally:
        service.stop()


def test_edited_plugin_is_computed_anew(edition, tmp_path):
    edition()
    ss.run(ACTIVATION_SPEC, data=tmp_path / "data", workers=0).close()
    edition()  # another process with the same files finds the sweep
    ss.run(ACTIVATION_SPEC, data=tmp_path / "data", workers=0).close()
    (first,) = ss.sweeps(tmp_path / "data")
    edition(
        "return x * special.ndtr(x)", "return x * special.ndtr(1.0 * x)"
    )  # the same numbers: it is the files
    with ss.run(ACTIVATION_SPEC, data=tmp_path / "data", workers=0) as dataset:
        assert_equals_simulate(dataset, ACTIVATION_SPEC)
    second, old = ss.sweeps(tmp_path / "data")
    assert (old["id"], second["id"] != first["id"]) == (first["id"], True)
    assert (first["reused"], second["reused"]) == (0, second["runs"] // 2)  # those with erf


def test_unfinished_sweep_of_another_edition_is_paused(edition, tmp_path):
    folder = DataFolder(tmp_path / "data")
    edition()
    with Conductor(folder, SerialExecutor(lambda: False)) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(SPEC))
    edition("return x * special.ndtr(x)", "return 2.0 * x * special.ndtr(x)")
    with Conductor(folder, SerialExecutor(lambda: False)) as conductor:
        paused = conductor.ledger.sweep(sweep.id)
        assert paused.state == "paused"
        assert "activation gelu had version" in paused.reason
        conductor.resume(sweep.id)
        assert conductor.run(sweep.id).state == "completed"
    with ss.open(folder.dataset_path(sweep.id)) as dataset:
        assert_equals_simulate(dataset)


# ---- entries of this process


def register(scale=1.0, name="wave"):
    """Register an activation as a notebook does, with a function that uses a local number."""
    ACTIVATIONS[name] = Activation(
        name, "sin(x)", lambda x: scale * np.sin(x), lambda x: scale * np.cos(x),
        lambda x: -scale * np.sin(x), odd=True,
    )  # fmt: skip


WAVE_SPEC = {**ACTIVATION_SPEC, "axes": {**SPEC["axes"], "activation": ["erf", "wave"]}}


def test_local_activation_travels_to_own_workers_and_is_computed_anew(tmp_path):
    register()
    with ss.run(WAVE_SPEC, data=tmp_path, workers=1) as dataset:
        assert_equals_simulate(dataset, ACTIVATION_SPEC)
    register(0.5)
    with ss.run(WAVE_SPEC, data=tmp_path, workers=0) as dataset:
        assert_equals_simulate(dataset, ACTIVATION_SPEC)
    register(0.5)  # the same cell executed again
    ss.run(WAVE_SPEC, data=tmp_path, workers=0).close()
    second, first = ss.sweeps(tmp_path)
    assert (first["reused"], second["reused"]) == (0, second["runs"] // 2)


def test_local_activation_is_refused_for_other_clusters(tmp_path, monkeypatch):
    register()
    for options in ({"scheduler": "tcp://127.0.0.1:1"}, {}):
        if not options:
            monkeypatch.setenv("SWEEP_SCHEDULER", "tcp://127.0.0.1:1")
        with pytest.raises(InvalidInput, match="activation = 'wave': is registered in this process only"):
            ss.run(WAVE_SPEC, data=tmp_path / "data", **options)
    assert not (tmp_path / "data").exists()


def test_only_embedded_clusters_get_local_entries(tmp_path, monkeypatch):
    register()
    sent = []
    for is_embedded in (True, False):
        cluster = Embedded(1)
        cluster.is_embedded = is_embedded
        monkeypatch.setattr(cluster, "connect", lambda: (_ for _ in ()).throw(OSError("not now")))
        folder = DataFolder(tmp_path / str(is_embedded))
        folder.objects.prepare()
        executor = DaskExecutor(cluster, folder)
        executor.refresh()
        sent.append("entries" in executor.requirements)
    assert sent == [True, False]


def test_digest_follows_what_the_function_does():
    register()
    first = entry_version("activation", "wave")
    register()
    assert entry_version("activation", "wave") == first
    register(0.5)
    assert entry_version("activation", "wave") != first
    assert entry_version("activation", "erf") == ""


def test_digest_does_not_depend_on_the_cell():
    source, digests = "import numpy as np\ndef sine(x):\n    return np.sin(x)\n", []
    for number in (1, 2):
        namespace = {"__name__": "__main__"}
        exec(compile("\n" * number + source, f"/tmp/kernel-{number}/cell.py", "exec"), namespace)
        ACTIVATIONS["wave"] = Activation("wave", "", namespace["sine"], np.cos, np.sin)
        digests.append(entry_version("activation", "wave"))
    assert digests[0] == digests[1]
    assert len(digests[0]) == 64  # of the code, not a random one


def test_doubtful_function_gets_a_digest_of_its_own(tmp_path, monkeypatch):
    """A function that imports code when it runs does not say what it does."""

    def lazy(x):
        import lab

        return lab.SCALE * np.sin(x)

    def make():
        return Activation("wave", "", lazy, np.cos, np.sin)

    ACTIVATIONS["wave"] = make()
    first = entry_version("activation", "wave")
    assert entry_version("activation", "wave") == first  # of one registered entry, within a process
    ACTIVATIONS["wave"] = make()
    assert entry_version("activation", "wave") != first


def test_code_of_a_module_beside_the_notebook_is_part_of_the_digest(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    digests = []
    for scale in (1, 1, 2):
        (tmp_path / "lab.py").write_text(
            f"import numpy as np\ndef sine(x):\n    return {scale} * np.sin(x)\n"
        )
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        sys.modules.pop("lab", None)
        ACTIVATIONS["wave"] = Activation("wave", "", import_module("lab").sine, np.cos, np.sin)
        digests.append(entry_version("activation", "wave"))
    assert digests[0] == digests[1] != digests[2]


def test_entries_arrive_with_their_digests(monkeypatch):
    monkeypatch.setattr(by_value, "_received", {})
    monkeypatch.setattr(by_value, "_received_packs", set())
    register(0.25)
    digest, packed = entry_version("activation", "wave"), by_value.pack_entries()
    del ACTIVATIONS["wave"]
    assert by_value.pack_entries() is None
    by_value.install_entries(packed)
    assert ACTIVATIONS["wave"].value(np.array([1.0])) == 0.25 * np.sin(1.0)
    assert entry_version("activation", "wave") == digest
