"""Options of datasets, such as the auto-shard policy."""

from __future__ import annotations

import copy
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
    """Options for distribution; `auto_shard` is the older form of the policy.

    >>> options = mirrax.data.Options()
    >>> options.experimental_distribute.auto_shard_policy = "DATA"
    >>> dataset = mirrax.data.Dataset.range(8).batch(4).with_options(options)
    >>> dataset.options().experimental_distribute.auto_shard_policy.name
    'DATA'
    """

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

    def after(self, earlier: DistributeOptions) -> DistributeOptions:
        """Returns these, with what they leave at its default as in `earlier`."""
        result, default = DistributeOptions(), DistributeOptions()
        for name in self.__slots__:
            is_set = getattr(self, name) != getattr(default, name)
            setattr(result, name, getattr(self if is_set else earlier, name))
        return result

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
        """Whether workers share a dataset: the older form of the policy."""
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

    def after(self, earlier: Options) -> Options:
        """Returns these, with what they leave at its default as in `earlier`.

        >>> Options().after(Options(deterministic=False)).deterministic
        False
        """
        result, default = copy.deepcopy(self), type(self)()
        known = {field.name for field in dataclasses.fields(earlier)}
        for name in known & {field.name for field in dataclasses.fields(self)}:
            new, old = getattr(result, name), copy.deepcopy(getattr(earlier, name))
            if hasattr(new, "after"):
                setattr(result, name, new.after(old))
            elif new == getattr(default, name):
                setattr(result, name, old)
        return result
