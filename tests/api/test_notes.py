"""The name and the note of a sweep: PATCH, the list, events, tokens, the client."""

import pytest

import sweep_service as ss
from sweep_service.errors import InvalidInput
from sweep_service.store.notes import MAX_NOTE_LENGTH
from tests.api.served import assert_problem, gated, serving, until
from tests.specs import VERY_LONG_SPEC, distinct_spec

READ_ONLY, WRITER = "token-that-only-reads", "token-that-may-write"


@pytest.fixture(scope="module")
def sweep_id(service):
    return service.complete(distinct_spec(1, name="first name"))


def patch(service, sweep_id, **change):
    return service.patch(f"/v1/sweeps/{sweep_id}", json=change)


def test_new_name_and_note_are_shown_everywhere(service, sweep_id):
    title = service.load_dataset(sweep_id).attrs["title"]
    answer = patch(service, sweep_id, name="second name", note="line one\r\nline two  ")
    assert answer.status_code == 200
    assert (answer.json()["name"], answer.json()["note"]) == ("second name", "line one\nline two")
    assert service.sweep(sweep_id) == answer.json()
    listed = service.get("/v1/sweeps", params={"name": "SECOND"}).json()["sweeps"]
    assert [(sweep["id"], sweep["note"]) for sweep in listed] == [(sweep_id, "line one\nline two")]
    assert service.get("/v1/sweeps", params={"name": "first"}).json()["sweeps"] == []
    assert service.load_dataset(sweep_id).attrs["title"] == title  # the stored dataset is not rewritten
    # An equivalent spec is still the same sweep, which keeps its new name.
    assert service.submit(distinct_spec(1, name="first name")) == sweep_id
    assert service.sweep(sweep_id)["name"] == "second name"


def test_each_field_is_optional_and_null_clears_the_note(service, sweep_id):
    patch(service, sweep_id, name="a", note="b")
    assert patch(service, sweep_id, name="c").json()["note"] == "b"
    assert patch(service, sweep_id, note=None).json()["name"] == "c"
    assert service.sweep(sweep_id)["note"] is None
    assert patch(service, sweep_id).json()["name"] == "c"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "x" * 201}, "name"),
        ({"name": None}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "bell\a"}, "name"),
        ({"note": "x" * (MAX_NOTE_LENGTH + 1)}, "note"),
        ({"note": 5}, "note"),
        ({"note": "escape \x1b[2J"}, "note"),
        ({"tags": "colt"}, "tags"),
        ({"tags": ["colt", "a/b"]}, "tags[1]"),
        ({"title": "x"}, "change (key) title"),
        ([], "change"),
    ],
)
def test_invalid_change_is_refused_and_changes_nothing(service, sweep_id, change, field):
    before = service.sweep(sweep_id)
    answer = service.patch(f"/v1/sweeps/{sweep_id}", json=change)
    assert_problem(answer, 422)
    assert answer.json()["field"] == field
    assert service.sweep(sweep_id) == before


def test_unknown_sweep_and_wrong_type_are_refused(service, sweep_id):
    assert_problem(patch(service, "20200101-000000-00000000", name="x"), 404)
    assert_problem(service.patch(f"/v1/sweeps/{sweep_id}", content="name: x"), 415)


def test_change_needs_a_token_that_may_write(tmp_path):
    tokens = f"reader={READ_ONLY}:read,writer={WRITER}"
    headers = {"Authorization": f"Bearer {WRITER}"}
    with serving(tmp_path, tokens=tokens, headers=headers) as service:
        sweep_id = service.complete(distinct_spec(2))
        path, reader = f"/v1/sweeps/{sweep_id}", {"Authorization": f"Bearer {READ_ONLY}"}
        assert_problem(service.patch(path, json={"name": "x"}, headers=reader), 403)
        assert service.patch(path, json={"name": "x"}).status_code == 200


def test_followers_are_told(tmp_path):
    with serving(tmp_path, executor=gated) as service, ss.Client(service.url) as client:
        service.executor.let(computes=0)
        sweep_id = service.submit(VERY_LONG_SPEC)
        events = client.events(sweep_id)
        assert next(events).data["name"] == "long"
        client.update(sweep_id, name="renamed while it runs")
        client.update(sweep_id, note="with a note")
        event = next(event for event in events if event.kind == "notes" and event.data["note"])
        assert (event.data["name"], event.data["note"]) == ("renamed while it runs", "with a note")
        assert event.data["state"] in ("queued", "running")
        kinds = [event.kind for event in service.conductor_thread.ledger.events(sweep_id)]
        assert kinds.count("notes") == 1  # only the latest is kept
        client.cancel(sweep_id)
        until(lambda: service.sweep(sweep_id)["state"] == "cancelled")


def test_tags_select_sweeps(service, sweep_id):
    assert patch(service, sweep_id, tags=["Colt", "noise floor"]).json()["tags"] == ["colt", "noise floor"]
    other = service.complete(distinct_spec(3))
    patch(service, other, tags=["colt"])

    def listed(*tags):
        answer = service.get("/v1/sweeps", params={"tag": list(tags)})
        return {sweep["id"] for sweep in answer.json()["sweeps"]}

    assert listed("COLT") == {sweep_id, other}
    assert listed("colt", "noise floor") == {sweep_id}
    assert listed("noise") == set()
    assert_problem(service.get("/v1/sweeps", params={"tag": "a,b"}), 422)
    with ss.Client(service.url) as client:
        assert {sweep["id"] for sweep in client.sweeps(tag=["colt"])} == {sweep_id, other}
        assert client.update(other, tags=[])["tags"] == []
        assert [sweep["id"] for sweep in client.sweeps(tag="colt")] == [sweep_id]


def test_client_changes_and_clears_notes(service, sweep_id):
    with ss.Client(service.url) as client:
        assert client.update(sweep_id, name="of the client", note="n")["links"]["self"].endswith(sweep_id)
        assert client.update(sweep_id, note="")["note"] is None
        assert client.sweep(sweep_id)["name"] == "of the client"
        with pytest.raises(InvalidInput, match="name"):
            client.update(sweep_id, name="a\nb")
