"""Options of datasets, such as the auto-shard policy."""

from __future__ import annotations

import copy
import dataclasses
import enum
from typing import TypeVar

from mirrax.options import parse_enum

T = TypeVar("T")


class AutoShardPolicy(enum.IntEnum):
    """How several workers share a dataset."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


SHARD_HINT = -1
"""In `shard(SHARD_HINT, SHARD_HINT)`: the shard of each worker, with HINT."""


# With slots, a misspelt option is an error.
@dataclasses.dataclass(slots=True)
class DistributeOptions:
    """Options for distribution; `auto_shard` is the older form of the policy.

    >>> options = mirrax.data.Options()
    >>> options.experimental_distribute.auto_shard_policy = "DATA"
    >>> dataset = mirrax.data.Dataset.range(8).batch(4).with_options(options)
    >>> dataset.options().experimental_distribute.auto_shard_policy.name
    'DATA'
    """

    _policy: AutoShardPolicy = AutoShardPolicy.AUTO
    num_devices: int | None = None

    def after(self, earlier: DistributeOptions) -> DistributeOptions:
        """Returns these, with what they leave at its default as in `earlier`."""
        return _merged(self, earlier)

    @property
    def auto_shard_policy(self) -> AutoShardPolicy:
        """How workers share a dataset: a policy, or its name."""
        return self._policy

    @auto_shard_policy.setter
    def auto_shard_policy(self, policy: AutoShardPolicy | str) -> None:
        self._policy = parse_enum(AutoShardPolicy, policy)

    @property
    def auto_shard(self) -> bool:
        """Whether workers share a dataset: the older form of the policy."""
        return self.auto_shard_policy is not AutoShardPolicy.OFF

    @auto_shard.setter
    def auto_shard(self, choice: bool) -> None:
        self.auto_shard_policy = AutoShardPolicy.AUTO if choice else AutoShardPolicy.OFF


@dataclasses.dataclass
class Options:
    """Options of a dataset, given to `Dataset.with_options`.

    `deterministic` is TensorFlow's and has no effect: the order always is.

    >>> options = Options()
    >>> options.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    """

    experimental_distribute: DistributeOptions = dataclasses.field(
        default_factory=DistributeOptions
    )
    vectorize_map: bool = True
    deterministic: bool | None = None

    def after(self, earlier: Options) -> Options:
        """Returns these, with what they leave at its default as in `earlier`.

        >>> Options().after(Options(deterministic=False)).deterministic
        False
        """
        return _merged(self, earlier)


def _merged(options: T, earlier: object) -> T:
    result, default = copy.deepcopy(options), type(options)()
    for field in dataclasses.fields(result):  # type: ignore[arg-type]
        new = getattr(result, field.name)
        old = copy.deepcopy(getattr(earlier, field.name, new))
        if hasattr(new, "after"):
            setattr(result, field.name, new.after(old))
        elif new == getattr(default, field.name):
            setattr(result, field.name, old)
    return result
