"""`tf.data.Options`, including the options that Mirrax ignores."""

from __future__ import annotations

import dataclasses
from typing import Any

import mirrax


class Accepted:
    """Options that can be set and read, and are ignored; None by default."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def after(self, earlier: Accepted) -> Accepted:
        """Returns these options merged over those of `earlier`."""
        result = Accepted()
        vars(result).update(vars(earlier) | vars(self))
        return result

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Accepted) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass
class Options(mirrax.data.Options):
    """Options of a dataset.

    Mirrax tunes threads and pipelines itself, so those options are accepted and
    ignored.

    >>> options = Options()
    >>> options.threading.private_threadpool_size = 4
    >>> options.autotune.enabled is None
    True
    """

    autotune: Any = dataclasses.field(default_factory=Accepted)
    experimental_optimization: Any = dataclasses.field(default_factory=Accepted)
    experimental_service: Any = dataclasses.field(default_factory=Accepted)
    threading: Any = dataclasses.field(default_factory=Accepted)
    experimental_external_state_policy: Any = None
    experimental_slack: bool | None = None
    experimental_symbolic_checkpoint: bool | None = None
    experimental_threading: Any = dataclasses.field(default_factory=Accepted)
    experimental_warm_start: bool | None = None

    @property
    def experimental_deterministic(self) -> bool | None:
        """The former name of `deterministic`."""
        return self.deterministic

    @experimental_deterministic.setter
    def experimental_deterministic(self, value: bool | None) -> None:
        self.deterministic = value

    def __setattr__(self, name: str, value: Any) -> None:
        fields = type(self).__dataclass_fields__
        if name not in fields and name != "experimental_deterministic":
            known = ", ".join(fields)
            raise AttributeError(f"`tf.data.Options` has no {name!r}. It has: {known}.")
        super().__setattr__(name, value)
