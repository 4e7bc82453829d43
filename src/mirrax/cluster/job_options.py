"""How a job is started and watched, as arguments or environment variables say."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class JobOptions:
    """Settings of a job; each can also be set by an environment variable.

    Args:
        join_timeout: How many seconds all workers have to join; MIRRAX_JOIN_TIMEOUT.
        stuck_timeout: After how many seconds of waiting for a worker that is alive the
            job ends. None: 10 times the longest step so far, at least 300 s;
            MIRRAX_STUCK_TIMEOUT.
        silence_timeout: After how many seconds without a sign of life a worker counts
            as lost while others wait for it; MIRRAX_SILENCE_TIMEOUT.
        secret: Only processes that know it may join; MIRRAX_SECRET.
        bind: The address for the first worker to listen on, in place of the one that
            the cluster names; MIRRAX_BIND.
        coordinator: Where the launcher's coordinator listens; MIRRAX_COORDINATOR.
        token: What the launcher made for this attempt; MIRRAX_TOKEN.
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
    """Returns the settings that environment variables make.

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
