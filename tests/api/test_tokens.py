"""Tokens: how they are written, short ones, tokens from a file, and who learns what from /readyz."""

import logging
import os

import httpx2
import pytest

from sweep_service.api.app import create_app
from sweep_service.api.settings import Settings
from sweep_service.api.tokens import parse_token
from sweep_service.errors import InvalidInput
from sweep_service.version import __version__
from tests.api.served import serial, serving

TOKEN, LOOK = "open-sesame-4711", "only-looking-0815"
BASE64 = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("text", "secret", "may_change", "name"),
    [
        (TOKEN, TOKEN, True, ""),
        (f"{TOKEN}:read", TOKEN, False, ""),
        (f"alice={TOKEN}", TOKEN, True, "alice"),
        (f"alice={TOKEN}:read", TOKEN, False, "alice"),
        (BASE64, BASE64, True, ""),
        (f"{BASE64}:read", BASE64, False, ""),
        (f"bob={BASE64}", BASE64, True, "bob"),
        ("1a=b", "1a=b", True, ""),
        ("alice=", "", True, "alice"),
    ],
)
def test_token_has_secret_rights_and_name(text, secret, may_change, name):
    token = parse_token(text)
    assert (token.secret, token.may_change, token.name) == (secret, may_change, name)
    assert not secret or secret not in repr(token)


@pytest.mark.parametrize("tokens", ["abc", f"{TOKEN},abc", "x" * 15, "abc:read", f"alice={'x' * 15}"])
def test_short_tokens_are_refused_on_network(tmp_path, tokens):
    with pytest.raises(InvalidInput, match=r"16 characters .*`openssl rand -hex 32`") as caught:
        create_app(Settings(data=tmp_path, host="0.0.0.0", tokens=tokens), serial)
    assert "abc" not in str(caught.value)
    settings = Settings(data=tmp_path, tokens=tokens)  # on loopback
    settings.require_tokens()
    (warning,) = settings.token_warnings()
    assert "`openssl rand -hex 32`" in warning
    assert "abc" not in warning


def test_long_tokens_have_no_warnings(tmp_path):
    settings = Settings(data=tmp_path, host="0.0.0.0", tokens=f"{TOKEN},bob={LOOK}:read")
    settings.require_tokens()
    assert settings.token_warnings() == []


@pytest.mark.parametrize("tokens", ["alice=", "alice=:read", f"{TOKEN},bob="])
def test_empty_named_secret_is_refused(tmp_path, tokens):
    with pytest.raises(InvalidInput, match="empty secret"):
        create_app(Settings(data=tmp_path, tokens=tokens), serial)


@pytest.fixture
def tokens_file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"# made today\n{TOKEN}\n\nlook={LOOK}:read\n")
    path.chmod(0o600)
    return path


def test_tokens_are_read_from_file(tmp_path, tokens_file, monkeypatch):
    monkeypatch.setenv("SWEEP_TOKENS_FILE", str(tokens_file))
    settings = Settings(host="0.0.0.0", tokens="another-one-1234")
    settings.require_tokens()
    assert settings.secrets == ["another-one-1234", TOKEN, f"look={LOOK}:read"]
    assert settings.token_warnings() == []
    assert TOKEN not in f"{settings!r} {settings.model_dump_json()}"
    with serving(tmp_path / "data") as service:
        assert service.get("/v1/sweeps").status_code == 401
        assert service.get("/v1/sweeps", headers=bearer(TOKEN)).status_code == 200
        assert service.post("/v1/sweeps", json={}, headers=bearer(LOOK)).status_code == 403


def test_missing_tokens_file_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"tokens_file.*cannot be read: no such file"):
        Settings(tokens_file=tmp_path / "nothing").require_tokens()


def test_file_that_others_may_write_is_refused_and_read_is_warned_of(tokens_file):
    tokens_file.chmod(0o644)
    settings = Settings(tokens_file=tokens_file)
    settings.require_tokens()
    assert settings.token_warnings() == [
        f"every user of this machine may read the tokens in {tokens_file}: chmod 600 {tokens_file}"
    ]
    tokens_file.chmod(0o602)
    with pytest.raises(InvalidInput, match="chmod 600"):
        settings.require_tokens()


def test_no_file_in_a_container_is_an_empty_one():
    """docker-compose.yml mounts /dev/null unless a file is named."""
    settings = Settings(tokens_file=os.devnull)
    settings.require_tokens()
    assert (settings.secrets, settings.token_warnings()) == ([], [])
    with pytest.raises(InvalidInput, match="SWEEP_TOKENS"):
        Settings(tokens_file=os.devnull, host="0.0.0.0").require_tokens()


# ---- what probes tell


def test_probes_tell_strangers_only_the_status(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with serving(tmp_path, tokens=f"{TOKEN},{LOOK}:read") as service:
        for headers in ({}, bearer("wrong"), {"Cookie": "sweep_session=1.2"}):
            assert service.get("/readyz", headers=headers).json() == {"status": "ready"}
        assert service.get("/healthz").json() == {"status": "ok"}
        for token in (TOKEN, LOOK):
            answer = service.get("/readyz", headers=bearer(token)).json()
            assert answer == {
                "status": "ready", "version": __version__, "threads": 1, "waiting": "", "refused": [],
            }  # fmt: skip
        with httpx2.Client(base_url=service.url) as browser:
            browser.post("/v1/session", json={"token": LOOK})
            assert browser.get("/readyz").json()["threads"] == 1


def test_probes_do_not_help_to_guess_tokens(tmp_path):
    """Wrong tokens are counted, and then a new one is not checked, but the probe still answers."""
    with serving(tmp_path, tokens=TOKEN) as service:
        for number in range(101):
            service.get("/readyz", headers=bearer(f"wrong-{number}"))
        answer = service.get("/readyz", headers=bearer(TOKEN))
        assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
