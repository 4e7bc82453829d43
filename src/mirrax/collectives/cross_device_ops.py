"""The one question a cross-device algorithm answers."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import jax

from mirrax.options import CommunicationOptions


class CrossDeviceOps(abc.ABC):
    """How the values of several replicas are added up.

    >>> class Loud(CrossDeviceOps):
    ...     def sum_over_replicas(self, values, num_replicas, options):
    ...         print("adding up over", num_replicas)
    ...         return [jax.lax.psum(value, "replica") for value in values]
    >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=Loud())
    >>> ones = strategy.run(lambda: jax.numpy.array(1.0))
    >>> float(strategy.reduce("SUM", ones, axis=None))
    adding up over 2
    2.0
    """

    @abc.abstractmethod
    def sum_over_replicas(
        self,
        values: Sequence[jax.Array],
        num_replicas: int,
        options: CommunicationOptions,
    ) -> list[jax.Array]:
        """Returns the sums over all replicas, equal on each of them.

        Called while a program for one replica is traced: `values` are that replica's,
        and the mapped axis is called "replica".
        """
