"""Timeouts, secret and addresses of a job, from arguments or the environment."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from mirrax.errors import ConfigurationError

EXIT_CODE = 75
"""The exit code of a worker for which another attempt may succeed (EX_TEMPFAIL)."""

_IN_SECONDS = ("_timeout", "_grace")


@dataclasses.dataclass(frozen=True)
class JobOptions:
    """Settings of a job; each is also an environment variable, MIRRAX_<NAME>.

    Args:
        join_timeout: Seconds for all workers to join.
        stuck_timeout: Seconds of waiting for a live worker after which the job fails.
            None: 10 times the longest step so far, at least 300 s.
        silence_timeout: Seconds without a heartbeat after which a worker counts as
            lost, if others wait for it.
        idle_timeout: Seconds without a collective on any worker after which the job
            fails, and for the others to end after the first worker.
        failure_grace: Seconds for the other workers to save something and exit after a
            failure, before the launcher kills them.
        requeue_code: The exit code of workers that were asked to end and have saved.
        secret: Only processes that know it may join.
        bind: The address for the first worker to listen on, in place of the one that
            the cluster names.
        coordinator: The address of the launcher's coordinator.
        token: The launcher's token for this attempt.
    """

    join_timeout: float = 300.0
    stuck_timeout: float | None = None
    silence_timeout: float = 30.0
    idle_timeout: float = 3600.0
    failure_grace: float = 15.0
    requeue_code: int = EXIT_CODE
    secret: str = dataclasses.field(default="", repr=False)
    bind: str = ""
    coordinator: str = ""
    token: str = dataclasses.field(default="", repr=False)

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if name.endswith(_IN_SECONDS) and value is not None and not value > 0:
                raise ConfigurationError(
                    f"`{name}` must be a number of seconds above 0. Received: {value}."
                )
        if not 0 <= self.requeue_code <= 255:
            raise ConfigurationError(
                "`requeue_code` must be an exit code from 0 to 255. Received: "
                f"{self.requeue_code}."
            )


def read_options(environment: Mapping[str, str] = os.environ) -> JobOptions:
    """Returns the settings in environment variables.

    >>> read_options({"MIRRAX_JOIN_TIMEOUT": "60"}).join_timeout
    60.0
    """
    values: dict[str, float | int | str] = {}
    for field in dataclasses.fields(JobOptions):
        variable = f"MIRRAX_{field.name.upper()}"
        text = environment.get(variable, "")
        kind: Any = float if field.name.endswith(_IN_SECONDS) else type(field.default)
        try:
            if text:
                values[field.name] = kind(text)
        except ValueError:
            rule = "a number of seconds"
            if kind is int:
                rule = "an exit code from 0 to 255"
            raise ConfigurationError(
                f"{variable} must be {rule}. Received: {text!r}."
            ) from None
    return JobOptions(**values)  # type: ignore[arg-type]
