"""Timeouts, secret and addresses of a job, from arguments or the environment."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class JobOptions:
    """Settings of a job; each is also an environment variable, MIRRAX_<NAME>.

    Args:
        join_timeout: Seconds for all workers to join.
        stuck_timeout: Seconds of waiting for a live worker after which the job fails.
            None: 10 times the longest step so far, at least 300 s.
        silence_timeout: Seconds without a heartbeat after which a worker counts as
            lost, if others wait for it.
        secret: Only processes that know it may join.
        bind: The address for the first worker to listen on, in place of the one that
            the cluster names.
        coordinator: The address of the launcher's coordinator.
        token: The launcher's token for this attempt.
    """

    join_timeout: float = 300.0
    stuck_timeout: float | None = None
    silence_timeout: float = 30.0
    secret: str = dataclasses.field(default="", repr=False)
    bind: str = ""
    coordinator: str = ""
    token: str = dataclasses.field(default="", repr=False)

    def __post_init__(self) -> None:
        for name in ("join_timeout", "stuck_timeout", "silence_timeout"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(
                    f"`{name}` must be a number of seconds above 0. Received: {value}."
                )


def read_options(environment: Mapping[str, str] = os.environ) -> JobOptions:
    """Returns the settings in environment variables.

    >>> read_options({"MIRRAX_JOIN_TIMEOUT": "60"}).join_timeout
    60.0
    """
    values: dict[str, float | str] = {}
    for field in dataclasses.fields(JobOptions):
        variable = f"MIRRAX_{field.name.upper()}"
        text = environment.get(variable, "")
        if text and field.name.endswith("_timeout"):
            try:
                values[field.name] = float(text)
            except ValueError:
                raise ValueError(
                    f"{variable} must be a number of seconds. Received: {text!r}."
                ) from None
        elif text:
            values[field.name] = text
    return JobOptions(**values)  # type: ignore[arg-type]
