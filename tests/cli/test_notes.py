"""`sweep rename`, `note` and `tag`, on a data folder and on a service."""

import sweep_service as ss
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
        run_command(tmp_path, "tag", sweep_id, "a", "b", "--url", service.url)
        run_command(tmp_path, "tag", sweep_id, "--remove", "a", "--url", service.url)
        listed = run_command(tmp_path, "list", "--tag", "b", "--url", service.url, "--json").json
        sweep = service.sweep(sweep_id)
    assert (sweep["name"], sweep["note"], sweep["tags"]) == ("from the shell", "a note", ["b"])
    assert [sweep["id"] for sweep in listed] == [sweep_id]


def test_sweep_of_a_folder_is_tagged(tmp_path):
    sweep_id = run_command(tmp_path, "run", "-", "--json", "--serial", text=TINY_SPEC).json["id"]
    assert run_command(tmp_path, "tag", sweep_id, "COLT", "fig. 2").out.endswith("colt, fig. 2\n")
    added = run_command(tmp_path, "tag", sweep_id, "new", "--remove", "colt", "--json").json
    assert added["tags"] == ["fig. 2", "new"]
    assert "fig. 2, new" in run_command(tmp_path, "show", sweep_id).out
    assert "fig. 2, new" in run_command(tmp_path, "list", "--tag", "NEW").out
    assert run_command(tmp_path, "list", "--tag", "colt", "--json").json == []
    assert_refused(run_command(tmp_path, "tag", sweep_id, "a,b"), "tags[0]", "letters, digits")
    assert_refused(run_command(tmp_path, "tag", sweep_id), "name tags")
    assert [sweep["id"] for sweep in ss.sweeps(tmp_path / "sweep-data", tag="new")] == [sweep_id]
