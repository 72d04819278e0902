"""`sweep rename` and `sweep note`, on a data folder and on a service."""

from tests.api.served import serving
from tests.cli.commands import assert_refused, run_command
from tests.specs import TINY_SPEC


def test_sweep_of_a_folder_is_renamed_and_annotated(tmp_path):
    sweep_id = run_command(tmp_path, "run", "-", "--json", "--serial", text=TINY_SPEC).json["id"]
    assert run_command(tmp_path, "rename", sweep_id[:13], "a new name").out.split() == [
        sweep_id, "a", "new", "name",
    ]  # fmt: skip
    assert run_command(tmp_path, "note", sweep_id, "two\nlines", "--json").json["note"] == "two\nlines"
    assert "a new name" in run_command(tmp_path, "list").out
    text = run_command(tmp_path, "show", sweep_id).out
    assert "name       a new name\nnote       two lines\n" in text
    assert run_command(tmp_path, "note", sweep_id, "").out.endswith("no note\n")
    assert "note  " not in run_command(tmp_path, "show", sweep_id).out
    assert_refused(run_command(tmp_path, "rename", sweep_id, "a/b"), "name", "must not contain")


def test_sweep_of_a_service_is_renamed(tmp_path):
    with serving(tmp_path / "data") as service:
        sweep_id = service.complete(TINY_SPEC)
        run_command(tmp_path, "rename", sweep_id, "from the shell", "--url", service.url)
        run_command(tmp_path, "note", sweep_id, "a note", "--url", service.url)
        sweep = service.sweep(sweep_id)
    assert (sweep["name"], sweep["note"]) == ("from the shell", "a note")
