"""Commands with --url, and `serve`, `submit` and `watch`."""

import re
import shlex
import signal
import urllib.request

import pytest

from sweep_service.cli.answers import DONE, FAILED, INTERRUPTED
from tests.cli.commands import (
    COMMANDS,
    INPUT,
    assert_refused,
    fork_server,
    list_files,
    run_command,
    until,
)
from tests.hold import Hold
from tests.service import breakable_environment, free_port, start_service
from tests.specs import LONG_SPEC, SMALL_SPEC

TOKEN = "let-me-in"
LOCAL_COMMANDS = ("run", "rerun", "archive", "presets", "doctor", "certificates")
REMOTE_COMMANDS = {
    **{name: arguments for name, arguments in COMMANDS.items() if name not in LOCAL_COMMANDS},
    "submit": ["submit", "-"],
    "watch": ["watch", "ID"],
}
REMOTE_INPUT = {**INPUT, "submit": SMALL_SPEC}
ENDLESS_SPEC = {**LONG_SPEC, "name": "endless", "time": {"max": 30000.0, "samples": 4}, "seeds": 2}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    service = start_service(folder / "data", env={"SWEEP_TOKENS": TOKEN, **breakable_environment(folder)})
    yield service
    assert service.stop() == 0, service.log.read_text()[-2000:]


@pytest.fixture(scope="module")
def start_remote(service, tmp_path_factory):
    """A function that starts a command with the service and its token in the environment."""
    sweep_id = {"SWEEP_TOKEN": TOKEN, "SWEEP_URL": service.url}
    cwd = tmp_path_factory.mktemp("client")

    def start(*argv, text="", env=sweep_id, cwd=cwd):
        return fork_server().start(cwd, *argv, text=text, env=env, serial=False)

    return start


@pytest.fixture(scope="module")
def run_remote(start_remote):
    """A function that runs a command on the service."""
    return lambda *argv, **options: start_remote(*argv, **options).wait()


@pytest.fixture(scope="module")
def sweep_id(run_remote):
    """The id of a completed sweep."""
    answer = run_remote("submit", "-", "--watch", "--json", text=SMALL_SPEC)
    assert (answer.code, answer.json["state"]) == (DONE, "completed"), answer.err
    return answer.json["id"]


@pytest.fixture
def busy_id(run_remote):
    """The id of a running sweep that would take hours."""
    busy_id = run_remote("submit", "-", "--json", text=ENDLESS_SPEC).json["id"]
    until(lambda: run_remote("show", busy_id, "--json").json["state"] == "running")
    yield busy_id
    run_remote("rm", busy_id)


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", REMOTE_COMMANDS)
def test_every_command_works_on_a_service(run_remote, sweep_id, service, tmp_path, name, as_json):
    if name == "rm":
        sweep_id = run_remote("submit", "-", "--json", text={**SMALL_SPEC, "seeds": 1 + as_json}).json["id"]
    argv = [sweep_id[:-2] if word == "ID" else word for word in REMOTE_COMMANDS[name]]
    argv += ["--url", service.url, *["--json"] * as_json]
    answer = run_remote(*argv, text=REMOTE_INPUT.get(name, ""), env={"SWEEP_TOKEN": TOKEN}, cwd=tmp_path)
    assert answer.code == DONE, answer.err
    assert "Traceback" not in answer.err
    assert "Warning" not in answer.err
    assert answer.out.strip()
    if as_json:
        assert answer.json
        assert answer.err == ""
        assert len(answer.out.splitlines()) == 1
    assert set(list_files(tmp_path)) <= {"out.csv", "out.png"}  # no data folder is created


def test_service_and_folder_give_the_same_answers(run_remote, sweep_id, service):
    folder = service.log.parent
    for argv in (["show", sweep_id], ["estimate", "-"]):
        remote = run_remote(*argv, "--json", text=SMALL_SPEC).json
        local = run_command(folder, *argv, "--data", "data", "--json", text=SMALL_SPEC).json
        local.pop("path", None)
        assert {name: remote[name] for name in local} == local
    sweeps = run_remote("list", "--json").json
    assert [sweep["id"] for sweep in sweeps] == [
        sweep["id"] for sweep in run_command(folder, "list", "--data", "data", "--json").json
    ]
    row = rf"^{sweep_id} +completed +100 % +24 +[0-9.]+ kB +p = 4, k = 2, .* +\S.*$"
    assert re.search(row, run_remote("list").out, re.MULTILINE)
    assert re.search(
        rf"^url +{service.url}/v1/sweeps/{sweep_id}$", run_remote("show", sweep_id).out, re.MULTILINE
    )


def test_output_of_submit_has_links_and_the_next_command(run_remote, sweep_id, service):
    spec = {**SMALL_SPEC, "seeds": 3}
    answer = run_remote("submit", "-", "--url", service.url, text=spec, env={"SWEEP_TOKEN": TOKEN})
    assert answer.code == DONE, answer.err
    new_id = re.match(r"\S+", answer.out)[0]
    for link in ("zarr", "page", "dashboard"):
        assert re.search(rf"^{link} +{service.url}/\S+$", answer.out, re.MULTILINE)
    (command,) = [shlex.split(line) for line in answer.out.splitlines() if line.startswith("    sweep ")]
    assert command == ["sweep", "watch", new_id, "--url", service.url]
    watched = run_remote(*command[1:], env={"SWEEP_TOKEN": TOKEN})
    assert watched.code == DONE, watched.err
    assert new_id in watched.err  # above the bar
    assert watched.out.startswith("completed: 24 runs: 24 done; 16 reused from earlier sweeps\n")
    assert f"ds = ss.open('{service.url}/v1/sweeps/{new_id}')" in watched.out
    again = run_remote("submit", "-", text=spec)
    assert (again.code, again.out) == (DONE, watched.out)


def test_submit_accepts_a_preset_and_a_priority(run_remote):
    sweep = run_remote("submit", "fig2-right", "--priority", "-7", "--json").json
    assert sweep["priority"] == -7
    assert run_remote("rm", sweep["id"]).code == DONE


def test_exit_code_of_watch_is_that_of_the_state(run_remote, service, busy_id):
    for command, state in (("pause", "paused"), ("cancel", "cancelled")):
        changed, watched = run_remote(command, busy_id), run_remote("watch", busy_id)
        assert (changed.code, changed.out) == (DONE, f"{busy_id}  {state}\n")
        assert watched.code == INTERRUPTED
        assert watched.out.startswith(f"{state}: 2 runs")
    broken = service.log.with_name("broken")
    broken.touch()
    answer = run_remote("submit", "-", "--watch", text={**SMALL_SPEC, "seeds": [12, 13]})
    broken.unlink()
    assert answer.code == FAILED
    assert answer.out.startswith("incomplete: 16 runs: 12 done, 4 failed\n")
    assert "first error: RuntimeError: out of order" in answer.out
    (again,) = re.findall(r"sweep (retry \S+)$", answer.out, re.MULTILINE)
    assert "    sweep rerun" in run_remote("show", again.split()[1]).out
    assert re.search(r"  (queued|running)$", run_remote(*again.split()).out.splitlines()[0])
    assert run_remote("watch", again.split()[1]).code == DONE


def test_paused_sweep_is_resumed_and_cancelled_one_is_retried(run_remote, busy_id):
    run_remote("pause", busy_id)
    for command in ("resume", "retry"):  # retry also continues a paused sweep, as for a folder
        run_remote("pause", busy_id)
        assert run_remote(command, busy_id, "--json").json["state"] in ("queued", "running")
    run_remote("cancel", busy_id)
    assert run_remote("retry", busy_id, "--json").json["state"] in ("queued", "running")


def count_event_streams(service):
    """Read the number of open event streams from the metrics."""
    request = urllib.request.Request(f"{service.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request) as answer:
        return float(re.search(r"^sweep_event_streams (\S+)$", answer.read().decode(), re.MULTILINE)[1])


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_interrupted_watch_leaves_the_sweep_running(run_remote, start_remote, service, busy_id, as_json):
    watching = start_remote("watch", busy_id, *["--json"] * as_json)
    if not as_json:
        until(lambda: busy_id in watching.text("err"))
    else:
        until(lambda: count_event_streams(service) > 0)
    watching.kill(signal.SIGINT)
    answer = watching.wait()
    assert answer.code == INTERRUPTED
    assert "Traceback" not in answer.err
    if not as_json:
        assert f"the sweep continues; to watch it: sweep watch {busy_id}" in answer.err
    assert run_remote("show", busy_id, "--json").json["state"] in ("queued", "running")


def test_error_of_a_service_is_one_line(run_remote, sweep_id, service):
    bad = {**SMALL_SPEC, "axes": {**SMALL_SPEC["axes"], "gamma": -1.0}}
    assert_refused(run_remote("submit", "-", text=bad), "gamma: must be")
    assert_refused(run_remote("submit", "no-such-file"), "must be a file")
    assert_refused(run_remote("show", "nope"), "no sweep begins with 'nope'")
    assert_refused(run_remote("watch", "20000101-000000-00000000"), "no sweep")
    assert_refused(run_remote("export", sweep_id, "out.xlsx"), "must end in")
    assert_refused(run_remote("list", env={"SWEEP_URL": service.url}), "token")
    assert_refused(run_remote("list", env={"SWEEP_URL": "nonsense"}), "url = 'nonsense'")
    assert_refused(run_remote("list", "--url", service.url, "--data", "x"), "--data = 'x'", "--url")
    for option in (["--workers", "2"], ["--serial"], ["--scheduler", "tcp://x:1"]):
        assert_refused(run_remote("retry", sweep_id, *option), option[0], service.url)


def test_unreachable_service_is_reported_on_one_line(run_remote):
    url = f"http://127.0.0.1:{free_port()}"
    assert_refused(run_remote("list", "--url", url), f"no service answers at {url}")


def test_data_option_overrides_the_service_of_the_environment(run_remote, stored_sweep):
    cwd, local_id = stored_sweep
    (sweep,) = run_remote("list", "--data", cwd / "sweep-data", "--json").json
    assert sweep["id"] == local_id


def test_folder_in_use_names_the_service(run_remote, sweep_id, service):
    data = service.log.with_name("data")
    for name in ("cancel", "retry", "extend", "pause", "resume", "rm", "run"):
        argv = [sweep_id if word == "ID" else word for word in COMMANDS[name]]
        text = {"run": {**SMALL_SPEC, "seeds": 7}}.get(name, REMOTE_INPUT.get(name, ""))
        answer = run_remote(*argv, "--data", data, text=text)
        advice = "use sweep submit --url" if name == "run" else "add --url"  # run has no --url
        assert_refused(answer, f"in use by process {service.process.pid}", f"{advice} {service.url}")
    assert_refused(
        run_remote("doctor", "--rebuild", "--data", data), f"in use by process {service.process.pid}"
    )
    assert run_remote("list", "--data", data).code == DONE  # reading needs no lock
    report = run_remote("doctor", "--data", data, "--json").json
    (check,) = [check for check in report["checks"] if check["name"] == "service"]
    assert (check["verdict"], f"{service.url} is ready" in check["found"]) == ("ok", True)
    assert report["calibration"] == {}  # the service may be computing


# ---- serve


def test_service_that_cannot_start_says_why(tmp_path, service):
    data, port = service.log.with_name("data"), service.url.rpartition(":")[2]
    for argv, phrases in (
        (["--port", port], ("host, port", "in use")),
        (["--port", "77777"], ("port",)),
        (["--host", "0.0.0.0"], ("SWEEP_TOKENS",)),
        (["--data", data], (f"in use by process {service.process.pid}", service.url)),
        (["--scheduler", "nonsense"], ("scheduler", "tcp://host:8786")),
        (["--log", "loud"], ("log", "'json' or 'text'")),
        (["--scheduler", "tcp://x:1", "--workers", "2"], ("--workers = 2", "--scheduler")),
    ):
        assert_refused(run_command(tmp_path, "serve", *argv), *phrases)


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGINT], ids=["SIGTERM", "SIGINT"]
)
def test_service_stops_on_a_signal_while_it_is_watched(tmp_path, number):
    port, hold = free_port(), Hold(tmp_path, "run:sgd-0")  # so that the sweep does not end before the signal
    first = start_service(tmp_path / "data", port, env=hold.environment)
    try:
        env, spec = {"SWEEP_URL": first.url}, {**LONG_SPEC, "seeds": 2, "time": {"max": 1.0, "samples": 4}}
        watching = fork_server().start(tmp_path, "submit", "-", "--watch", text=spec, env=env)
        until(hold.count)
        first.process.send_signal(number)
        assert first.process.wait(20) == 0
        until(lambda: f"waiting for the service at {first.url}" in watching.text("err"))
        if number == signal.SIGTERM:
            second = start_service(tmp_path / "data", port)
            try:
                answer = watching.wait()
            finally:
                second.stop()
            assert answer.code == DONE, answer.err
            assert answer.out.startswith("completed: 2 runs: 2 done\n")
        else:
            watching.kill(signal.SIGINT)
            assert watching.wait().code == INTERRUPTED
    finally:
        first.close()
