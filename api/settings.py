"""Settings of a service, from arguments or else from the environment (`SWEEP_DATA`, `SWEEP_TOKENS`, …)."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from sweep_service.api.middleware.cross_origin import read_origin
from sweep_service.api.tokens import (
    MAKE_TOKEN,
    MIN_SECRET_CHARACTERS,
    describe_weaknesses,
    is_short,
    parse_token,
    read_tokens_file,
    split_tokens,
)
from sweep_service.errors import InvalidInput
from sweep_service.planning.estimate import Limits
from sweep_service.validation import read_scheduler_address

TextList = Annotated[tuple[str, ...], NoDecode]


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="SWEEP_", frozen=True, populate_by_name=True, extra="ignore")

    data: Annotated[str, BeforeValidator(str)] = "sweep-data"  # a folder, or s3://bucket/folder
    state: Path | None = None  # folder of the ledger, by default the data folder
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    tokens: SecretStr = SecretStr("")  # comma-separated, each as described in `tokens.py`
    tokens_file: Path | None = None  # a file with more of them
    hosts: TextList = ()  # further host names of a service on loopback, for example behind a proxy
    origins: TextList = ()  # of pages that may read, such as https://viewer.example
    scheduler: str | None = Field(
        default=None, validation_alias=AliasChoices("SWEEP_SCHEDULER", "DASK_SCHEDULER_ADDRESS")
    )
    workers: int | None = Field(default=None, ge=1)
    log: Literal["json", "text"] | None = None  # by default text in a terminal, JSON elsewhere
    log_requests: bool | None = None  # by default only in JSON

    max_body: int = Field(default=2 << 20, ge=1)
    max_points: int = Field(default=Limits.points, ge=1)
    max_runs: int = Field(default=Limits.runs, ge=1)
    max_core_hours: float = Field(default=Limits.core_hours, gt=0)
    max_bytes: int = Field(default=Limits.bytes, ge=1)
    max_active: int = Field(default=Limits.active, ge=1)
    max_export_bytes: int = Field(default=1 << 30, ge=1)
    rate: float = Field(default=1000.0, ge=0, le=1e9)  # requests per second of one client; 0: no limit
    rate_heavy: float = Field(default=30.0, ge=0, le=1e9)  # the same for requests that compute or change
    proxies: TextList = ()  # addresses or networks of proxies whose X-Forwarded-For is trusted

    @field_validator("hosts", "origins", "proxies", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return (
            tuple(item.strip() for item in value.split(",") if item.strip())
            if isinstance(value, str)
            else value
        )

    @field_validator("origins")
    @classmethod
    def _are_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(read_origin, value))

    @field_validator("scheduler")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        return read_scheduler_address(value, "scheduler") if value else None

    @property
    def limits(self) -> Limits:
        return Limits(self.max_points, self.max_runs, self.max_core_hours, self.max_bytes, self.max_active)

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """The service's URL as seen from this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def secrets(self) -> list[str]:
        """The tokens as written, from the setting and from the file."""
        text = read_tokens_file(self.tokens_file) if self.tokens_file else ""
        return [*split_tokens(self.tokens.get_secret_value()), *split_tokens(text)]

    def require_tokens(self) -> None:
        """Refuse to listen on the network without tokens, or with short ones."""
        tokens = [parse_token(secret) for secret in self.secrets]
        if not all(token.secret.strip(" :") for token in tokens):
            raise InvalidInput("tokens", None, "contain an empty secret; check that every variable is set")
        if not self.is_loopback and not tokens:
            raise InvalidInput(
                "host",
                self.host,
                "is open to the network, so tokens are required: set SWEEP_TOKENS to one or more secrets, "
                "such as the output of `openssl rand -hex 32`, separated by commas (secret:read is "
                "read-only); or listen on 127.0.0.1",
            )
        if not self.is_loopback and any(map(is_short, tokens)):
            allowed = (
                f"must have at least {MIN_SECRET_CHARACTERS} characters each on the network: {MAKE_TOKEN}"
            )
            raise InvalidInput("tokens", None, allowed)

    def token_warnings(self) -> list[str]:
        """Weaknesses of the tokens that do not prevent the service from starting."""
        return list(describe_weaknesses([parse_token(secret) for secret in self.secrets], self.tokens_file))
