"""Options of datasets: how workers share them."""

from __future__ import annotations

import dataclasses
import enum


class AutoShardPolicy(enum.IntEnum):
    """How several workers share a dataset."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class DistributeOptions:
    """Options for distribution; `auto_shard` is the older form of the policy."""

    # So that a misspelt option is an error.
    __slots__ = ("_policy", "num_devices")

    def __init__(self) -> None:
        self._policy = AutoShardPolicy.AUTO
        self.num_devices: int | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DistributeOptions):
            return NotImplemented
        mine = (self._policy, self.num_devices)
        return mine == (other._policy, other.num_devices)

    __hash__ = None  # type: ignore[assignment]

    @property
    def auto_shard_policy(self) -> AutoShardPolicy:
        """How workers share a dataset: a policy, or its name."""
        return self._policy

    @auto_shard_policy.setter
    def auto_shard_policy(self, policy: AutoShardPolicy | str) -> None:
        names = AutoShardPolicy.__members__
        if isinstance(policy, str) and policy.upper() in names:
            policy = names[policy.upper()]
        if not isinstance(policy, AutoShardPolicy):
            raise ValueError(
                f"`auto_shard_policy` must be one of {', '.join(names)}. Received: "
                f"{policy!r}."
            )
        self._policy = policy

    @property
    def auto_shard(self) -> bool:
        return self.auto_shard_policy is not AutoShardPolicy.OFF

    @auto_shard.setter
    def auto_shard(self, choice: bool) -> None:
        self.auto_shard_policy = AutoShardPolicy.AUTO if choice else AutoShardPolicy.OFF


@dataclasses.dataclass
class Options:
    """Options of a dataset, given to `Dataset.with_options`.

    >>> options = Options()
    >>> options.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    """

    experimental_distribute: DistributeOptions = dataclasses.field(
        default_factory=DistributeOptions
    )
    vectorize_map: bool = True
    deterministic: bool | None = None
