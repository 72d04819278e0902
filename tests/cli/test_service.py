"""Commands on a service: with --url they do what they do on a folder; and `serve`, `submit`, `watch`."""

import re
import shlex
import signal
import urllib.request

import pytest

from sweep_service.cli.answers import DONE, FAILED, INTERRUPTED
from tests.cli.commands import (
    COMMANDS,
    INPUT,
    LONG,
    SMALL,
    assert_refused,
    nursery,
    sweep,
    trace_of,
    until,
)
from tests.service import breakable, free_port, start_service

TOKEN = "let-me-in"
LOCAL = ("run", "rerun", "presets", "doctor", "certificates")  # are for this machine
ON_A_SERVICE = {
    **{name: words for name, words in COMMANDS.items() if name not in LOCAL},
    "submit": ["submit", "-"],
    "watch": ["watch", "ID"],
}
TEXT = {**INPUT, "submit": SMALL}
ENDLESS = {**LONG, "name": "endless", "time": {"max": 30000.0, "samples": 4}, "seeds": 2}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    found = start_service(folder / "data", env={"SWEEP_TOKENS": TOKEN, **breakable(folder)})
    yield found
    assert found.stop() == 0, found.log.read_text()[-2000:]


@pytest.fixture(scope="module")
def child(service, tmp_path_factory):
    """A command, with the service and its token in the environment."""
    known = {"SWEEP_TOKEN": TOKEN, "SWEEP_URL": service.url}
    cwd = tmp_path_factory.mktemp("client")

    def started(*argv, text="", env=known, cwd=cwd):
        return nursery().start(cwd, *argv, text=text, env=env, serial=False)

    return started


@pytest.fixture(scope="module")
def there(child):
    return lambda *argv, **options: child(*argv, **options).wait()


@pytest.fixture(scope="module")
def known(there):
    """The id of a completed sweep."""
    answer = there("submit", "-", "--watch", "--json", text=SMALL)
    assert (answer.code, answer.json["state"]) == (DONE, "completed"), answer.err
    return answer.json["id"]


@pytest.fixture
def busy(there):
    """The id of a sweep that would take hours."""
    found = there("submit", "-", "--json", text=ENDLESS).json["id"]
    until(lambda: there("show", found, "--json").json["state"] == "running")
    yield found
    there("rm", found)


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", ON_A_SERVICE)
def test_every_command_answers_for_a_service(there, known, service, tmp_path, name, as_json):
    if name == "rm":
        known = there("submit", "-", "--json", text={**SMALL, "seeds": 1 + as_json}).json["id"]
    argv = [known[:-2] if word == "ID" else word for word in ON_A_SERVICE[name]]
    argv += ["--url", service.url, *["--json"] * as_json]
    answer = there(*argv, text=TEXT.get(name, ""), env={"SWEEP_TOKEN": TOKEN}, cwd=tmp_path)
    assert answer.code == DONE, answer.err
    assert "Traceback" not in answer.err
    assert "Warning" not in answer.err
    assert answer.out.strip()
    if as_json:
        assert answer.json
        assert answer.err == ""
        assert len(answer.out.splitlines()) == 1
    assert set(trace_of(tmp_path)) <= {"out.csv", "out.png"}  # no folder comes to be


def test_a_service_tells_what_its_folder_tells(there, known, service):
    folder = service.log.parent
    for argv in (["show", known], ["estimate", "-"]):
        found = there(*argv, "--json", text=SMALL).json
        here = sweep(folder, *argv, "--data", "data", "--json", text=SMALL).json
        here.pop("path", None)
        assert {name: found[name] for name in here} == here
    listed = there("list", "--json").json
    assert [one["id"] for one in listed] == [
        one["id"] for one in sweep(folder, "list", "--data", "data", "--json").json
    ]
    assert re.search(rf"^{known} +completed +100 % +24 +small$", there("list").out, re.MULTILINE)
    assert re.search(rf"^url +{service.url}/v1/sweeps/{known}$", there("show", known).out, re.MULTILINE)


def test_submit_says_where_it_is_and_what_to_type_next(there, known, service):
    some = {**SMALL, "seeds": 3}
    answer = there("submit", "-", "--url", service.url, text=some, env={"SWEEP_TOKEN": TOKEN})
    assert answer.code == DONE, answer.err
    found = re.match(r"\S+", answer.out)[0]
    for link in ("zarr", "page", "dashboard"):
        assert re.search(rf"^{link} +{service.url}/\S+$", answer.out, re.MULTILINE)
    (command,) = [shlex.split(line) for line in answer.out.splitlines() if line.startswith("    sweep ")]
    assert command == ["sweep", "watch", found, "--url", service.url]
    watched = there(*command[1:], env={"SWEEP_TOKEN": TOKEN})
    assert watched.code == DONE, watched.err
    assert found in watched.err  # above the bar
    assert watched.out.startswith("completed: 24 runs: 24 done; 16 copied from earlier sweeps\n")
    assert f"ds = ss.open('{service.url}/v1/sweeps/{found}')" in watched.out
    again = there("submit", "-", text=some)
    assert (again.code, again.out) == (DONE, watched.out)


def test_a_preset_and_a_priority_are_submitted(there):
    about = there("submit", "fig2-right", "--priority", "-7", "--json").json
    assert about["priority"] == -7
    assert there("rm", about["id"]).code == DONE


def test_how_a_sweep_ends_is_the_exit_code_of_watching_it(there, service, busy):
    for command, state in (("pause", "paused"), ("cancel", "cancelled")):
        asked, watched = there(command, busy), there("watch", busy)
        assert (asked.code, asked.out) == (DONE, f"{busy}  {state}\n")
        assert watched.code == INTERRUPTED
        assert watched.out.startswith(f"{state}: 2 runs")
    broken = service.log.with_name("broken")
    broken.touch()
    answer = there("submit", "-", "--watch", text={**SMALL, "seeds": [12, 13]})
    broken.unlink()
    assert answer.code == FAILED
    assert answer.out.startswith("incomplete: 16 runs: 12 done, 4 failed\n")
    assert "the first error: RuntimeError: out of order" in answer.out
    (again,) = re.findall(r"sweep (retry \S+)$", answer.out, re.MULTILINE)
    assert "    sweep rerun" in there("show", again.split()[1]).out
    assert re.search(r"  (queued|running)$", there(*again.split()).out.splitlines()[0])
    assert there("watch", again.split()[1]).code == DONE


def test_a_paused_sweep_is_resumed_and_a_cancelled_one_retried(there, busy):
    there("pause", busy)
    for command in ("resume", "retry"):  # the latter also goes on with a paused one, as in a folder
        there("pause", busy)
        assert there(command, busy, "--json").json["state"] in ("queued", "running")
    there("cancel", busy)
    assert there("retry", busy, "--json").json["state"] in ("queued", "running")


def followers(service):
    """How many read events now."""
    asked = urllib.request.Request(f"{service.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(asked) as answer:
        return float(re.search(r"^sweep_event_streams (\S+)$", answer.read().decode(), re.MULTILINE)[1])


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_who_stops_watching_leaves_the_sweep_running(there, child, service, busy, as_json):
    watching = child("watch", busy, *["--json"] * as_json)
    if not as_json:
        until(lambda: busy in watching.text("err"))
    else:
        until(lambda: followers(service) > 0)
    watching.kill(signal.SIGINT)
    answer = watching.wait()
    assert answer.code == INTERRUPTED
    assert "Traceback" not in answer.err
    if not as_json:
        assert f"the sweep goes on: sweep watch {busy}" in answer.err
    assert there("show", busy, "--json").json["state"] in ("queued", "running")


def test_refusals_of_a_service_are_one_line(there, known, service):
    bad = {**SMALL, "axes": {**SMALL["axes"], "gamma": -1.0}}
    assert_refused(there("submit", "-", text=bad), "gamma: must be")
    assert_refused(there("submit", "no-such-file"), "must be a file")
    assert_refused(there("show", "nope"), "no sweep begins with 'nope'")
    assert_refused(there("watch", "20000101-000000-00000000"), "no sweep")
    assert_refused(there("export", known, "out.xlsx"), "must end in")
    assert_refused(there("list", env={"SWEEP_URL": service.url}), "token")
    assert_refused(there("list", env={"SWEEP_URL": "nonsense"}), "url = 'nonsense'")
    assert_refused(there("list", "--url", service.url, "--data", "x"), "--data = 'x'", "--url")
    for option in (["--workers", "2"], ["--serial"], ["--scheduler", "tcp://x:1"]):
        assert_refused(there("retry", known, *option), option[0], service.url)


def test_a_service_that_is_not_there_is_one_line(there):
    url = f"http://127.0.0.1:{free_port()}"
    assert_refused(there("list", "--url", url), f"no service answers at {url}")


def test_a_folder_goes_before_a_service_of_the_environment(there, filled):
    cwd, here = filled
    (one,) = there("list", "--data", cwd / "sweep-data", "--json").json
    assert one["id"] == here


def test_a_folder_of_a_service_names_the_service(there, known, service):
    data = service.log.with_name("data")
    for name in ("cancel", "retry", "extend", "pause", "resume", "rm", "run"):
        argv = [known if word == "ID" else word for word in COMMANDS[name]]
        text = {"run": {**SMALL, "seeds": 7}}.get(name, TEXT.get(name, ""))
        answer = there(*argv, "--data", data, text=text)
        assert_refused(answer, f"in use by process {service.process.pid}", f"--url {service.url}")
    assert_refused(there("doctor", "--rebuild", "--data", data), f"in use by process {service.process.pid}")
    assert there("list", "--data", data).code == DONE  # who only looks need not ask
    found = there("doctor", "--data", data, "--json").json
    (check,) = [check for check in found["checks"] if check["name"] == "service"]
    assert (check["verdict"], f"{service.url} is ready" in check["found"]) == ("ok", True)
    assert found["calibration"] == {}  # it may be computing


# ---- serve


def test_a_service_that_cannot_start_says_why(tmp_path, service):
    data, port = service.log.with_name("data"), service.url.rpartition(":")[2]
    for argv, words in (
        (["--port", port], ("host, port", "in use")),
        (["--port", "77777"], ("port",)),
        (["--host", "0.0.0.0"], ("SWEEP_TOKENS",)),
        (["--data", data], (f"in use by process {service.process.pid}", service.url)),
        (["--scheduler", "nonsense"], ("scheduler", "tcp://host:8786")),
        (["--log", "loud"], ("log", "'json' or 'text'")),
        (["--scheduler", "tcp://x:1", "--workers", "2"], ("--workers = 2", "--scheduler")),
    ):
        assert_refused(sweep(tmp_path, "serve", *argv), *words)


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGINT], ids=["SIGTERM", "SIGINT"]
)
def test_a_service_ends_when_it_is_asked_to_while_it_is_watched(tmp_path, number):
    port = free_port()
    first = start_service(tmp_path / "data", port)
    try:
        env, some = {"SWEEP_URL": first.url}, {**LONG, "seeds": 2, "time": {"max": 100.0, "samples": 4}}
        watching = nursery().start(tmp_path, "submit", "-", "--watch", text=some, env=env)
        until(lambda: list((tmp_path / "data").glob("sweeps/*.parts/*.crumb")))
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
