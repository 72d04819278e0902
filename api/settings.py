"""What a service is told: by arguments first, then by the environment (`SWEEP_DATA`, `SWEEP_TOKENS`, …)."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from sweep_service.errors import InvalidInput
from sweep_service.planning.estimate import Limits
from sweep_service.validation import scheduler_address

Texts = Annotated[tuple[str, ...], NoDecode]


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="SWEEP_", frozen=True, populate_by_name=True, extra="ignore")

    data: Annotated[str, BeforeValidator(str)] = "sweep-data"  # a folder, or s3://bucket/folder
    state: Path | None = None  # where the ledger is, if it is not in the data folder
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    tokens: SecretStr = SecretStr("")  # comma separated; one that ends in :read may only look
    hosts: Texts = ()  # names under which a service on loopback is reached, by way of a proxy, say
    scheduler: str | None = Field(
        default=None, validation_alias=AliasChoices("SWEEP_SCHEDULER", "DASK_SCHEDULER_ADDRESS")
    )
    workers: int | None = Field(default=None, ge=1)
    log: Literal["json", "text"] | None = None  # by default text in a terminal, JSON elsewhere

    max_body: int = Field(default=2 << 20, ge=1)
    max_points: int = Field(default=Limits.points, ge=1)
    max_runs: int = Field(default=Limits.runs, ge=1)
    max_core_hours: float = Field(default=Limits.core_hours, gt=0)
    max_bytes: int = Field(default=Limits.bytes, ge=1)
    max_active: int = Field(default=Limits.active, ge=1)
    max_export_bytes: int = Field(default=1 << 30, ge=1)
    rate: float = Field(default=1000.0, ge=0, le=1e9)  # requests per second of one client; 0: any number
    rate_heavy: float = Field(default=30.0, ge=0, le=1e9)  # of those that compute or change something
    proxies: Texts = ()  # addresses or networks whose word on who a client is counts

    @field_validator("hosts", "proxies", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return (
            tuple(part.strip() for part in value.split(",") if part.strip())
            if isinstance(value, str)
            else value
        )

    @field_validator("scheduler")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        return scheduler_address(value, "scheduler") if value else None

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
        """Where this machine finds it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def secrets(self) -> list[str]:
        """The tokens, one by one."""
        return [part.strip() for part in self.tokens.get_secret_value().split(",") if part.strip()]

    def require_door(self) -> None:
        """Who listens to the network needs a lock on the door."""
        if not all(one.removesuffix(":read").strip(" :") for one in self.secrets):
            raise InvalidInput("tokens", None, "have one without a secret: is a variable not set?")
        if not self.is_loopback and not self.secrets:
            raise InvalidInput(
                "host",
                self.host,
                "is open to the network, so tokens are needed: set SWEEP_TOKENS to one or more secrets, "
                "such as the output of `openssl rand -hex 32`, separated by commas (secret:read may only "
                "look); or listen on 127.0.0.1",
            )
