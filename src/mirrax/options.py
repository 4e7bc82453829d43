"""Enums and option records: reductions, variables, communication, `run`."""

from __future__ import annotations

import dataclasses
import enum
import numbers
from typing import Any, NamedTuple, TypeVar

E = TypeVar("E", bound=enum.Enum)


class ReduceOp(enum.Enum):
    """How values of several replicas become one: SUM or MEAN.

    Functions also take the name: `"SUM"`.

    >>> strategy = mirrax.OneDeviceStrategy("CPU:0")
    >>> strategy.reduce(ReduceOp.SUM, strategy.run(lambda: 2.0), axis=None)
    Array(2., dtype=float32...)
    """

    SUM = "SUM"
    MEAN = "MEAN"

    @staticmethod
    def from_variable_aggregation(aggregation: VariableAggregation) -> ReduceOp:
        """Returns the operation of an aggregation that is SUM or MEAN."""
        try:
            return REDUCTIONS[aggregation]
        except KeyError:
            raise ValueError(
                "Only `VariableAggregation.SUM` and `MEAN` are operations. Could not "
                f"convert from `tf.VariableAggregation` {aggregation}."
            ) from None


class VariableAggregation(enum.Enum):
    """How the writes of several replicas to one variable become one value.

    - NONE: all replicas must write the same value; anything else is an error.
    - SUM, MEAN: the sum or mean of what they write is stored.
    - ONLY_FIRST_REPLICA: what the first replica writes is stored.

    >>> strategy = mirrax.MirroredStrategy(["CPU:0"])
    >>> with strategy.scope():
    ...     total = mirrax.Variable(0.0, aggregation=VariableAggregation.SUM)
    >>> strategy.run(lambda: total.assign_add(2.0))
    Array(2., dtype=float32)
    """

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


REDUCTIONS = {
    VariableAggregation.SUM: ReduceOp.SUM,
    VariableAggregation.MEAN: ReduceOp.MEAN,
}


class VariableSynchronization(enum.Enum):
    """When the copies of a variable are synchronized.

    - ON_WRITE: all copies are equal after each write. AUTO means the same.
    - ON_READ: each replica writes a copy of its own; reading the variable outside of
      `run` combines them, as its aggregation says.
    - NONE: for a variable on one device only.

    >>> with mirrax.MirroredStrategy(["CPU:0"]).scope():
    ...     count = mirrax.Variable(
    ...         0,
    ...         synchronization=VariableSynchronization.ON_READ,
    ...         aggregation=VariableAggregation.SUM,
    ...     )
    >>> count.trainable
    False
    """

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class CollectiveCommunication(enum.Enum):
    """The transport of data between workers.

    JAX has one for each type of device: Gloo for CPUs (AUTO or RING), NCCL for GPUs
    (AUTO or NCCL), their own network for TPUs (AUTO). Another choice has no effect.

    >>> CommunicationOptions(implementation="ring").implementation
    <CollectiveCommunication.RING: 'RING'>
    """

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


class CpuSum(enum.Enum):
    """How CPU workers add up values: see `CommunicationOptions`."""

    AUTO = "AUTO"
    IN_FULL = "IN_FULL"
    IN_PIECES = "IN_PIECES"
    ALL_REDUCE = "ALL_REDUCE"


@dataclasses.dataclass(frozen=True)
class CommunicationOptions:
    """Hints for collectives.

    Args:
        bytes_per_pack: Pack the values of one call into messages of about this size;
            0 leaves the choice to XLA, or between CPU workers packs those of up to
            512 KiB into one message.
        timeout_seconds: How long a collective may take before it counts as stuck.
        implementation: The transport between workers; AUTO works on all devices.
            Between CPU workers, RING is short for `cpu_sum="ALL_REDUCE"`.
        cpu_sum: How CPU workers add up. "IN_FULL": each sends its values to all others.
            "IN_PIECES": each adds up a piece, and sends the sum to the others.
            "ALL_REDUCE": by XLA, over Gloo's ring, in an order that depends on the
            number of workers. "AUTO" chooses by size and number of replicas.

    >>> CommunicationOptions(bytes_per_pack=50 * 1024 * 1024).bytes_per_pack
    52428800
    """

    bytes_per_pack: int = 0
    timeout_seconds: float | None = None
    implementation: CollectiveCommunication = CollectiveCommunication.AUTO
    cpu_sum: CpuSum = CpuSum.AUTO

    def __post_init__(self) -> None:
        size = self.bytes_per_pack
        if not _is_number(size) or size < 0 or size != int(size):
            raise ValueError(
                "`bytes_per_pack` must be 0 (XLA decides) or a number of bytes. "
                f"Received: bytes_per_pack={self.bytes_per_pack!r}."
            )
        seconds = self.timeout_seconds
        if seconds is not None and not (_is_number(seconds) and seconds > 0):
            raise ValueError(
                "`timeout_seconds` must be a number above 0, or None for no limit. "
                f"Received: timeout_seconds={seconds!r}."
            )
        choice = parse_enum(CollectiveCommunication, self.implementation)
        object.__setattr__(self, "implementation", choice)
        object.__setattr__(self, "cpu_sum", parse_enum(CpuSum, self.cpu_sum))


class RunOptions(NamedTuple):
    """Options of `Strategy.run`, accepted for ported programs, without effect.

    >>> strategy = mirrax.OneDeviceStrategy("CPU:0")
    >>> strategy.run(lambda: "done", options=RunOptions())
    'done'
    """

    experimental_enable_dynamic_batch_size: bool = True
    experimental_bucketizing_dynamic_shape: bool = False
    experimental_xla_options: Any = None


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def parse_reduce_op(op: ReduceOp | str) -> ReduceOp:
    """Returns the `ReduceOp` that `op` names: the enum or its name in any case."""
    if isinstance(op, VariableAggregation):
        # TensorFlow raises an AssertionError here.
        raise AssertionError(
            "A reduction takes a ReduceOp, not a VariableAggregation. "
            f"Received: {op}. Use ReduceOp.SUM or ReduceOp.MEAN."
        )
    return parse_enum(ReduceOp, op)


def parse_enum(kind: type[E], choice: E | str) -> E:
    """Returns the member of `kind` that `choice` is, or names in any case."""
    if isinstance(choice, kind):
        return choice
    if isinstance(choice, str) and choice.upper() in kind.__members__:
        return kind[choice.upper()]
    raise ValueError(
        f"Expected one of {', '.join(kind.__members__)}, as a member of "
        f"`{kind.__name__}` or its name. Received: {choice!r}."
    )
