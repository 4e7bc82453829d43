"""The base class of cluster resolvers."""

from __future__ import annotations

import abc
import importlib
from collections.abc import Sequence
from types import ModuleType

from mirrax.cluster.cluster_spec import ClusterSpec
from mirrax.devices.physical_devices import count_physical_devices


class ClusterResolver(abc.ABC):
    """Finds the tasks of a cluster, and which of them this process is.

    Give one to `MultiWorkerMirroredStrategy`, or write your own for another system:

    >>> class MyResolver(ClusterResolver):
    ...     def cluster_spec(self):
    ...         return ClusterSpec({"worker": ["first:7000", "second:7000"]})
    >>> resolver = MyResolver()
    >>> resolver.task_type, resolver.task_id = "worker", 1
    >>> resolver.master()
    'second:7000'
    """

    _task_type: str | None = None
    _task_id: int | None = None
    _environment: str | None = None
    rpc_layer: str | None = None

    @abc.abstractmethod
    def cluster_spec(self) -> ClusterSpec:
        """Returns the tasks of the cluster."""

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """Returns the address of a task; by default, of this process."""
        address = self._find_address(task_type, task_id)
        rpc_layer = rpc_layer or self.rpc_layer
        return f"{rpc_layer}://{address}" if rpc_layer and address else address

    @property
    def task_type(self) -> str | None:
        """The job of this process; None if unknown."""
        return self._default_task()[0] if self._task_type is None else self._task_type

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> int | None:
        """The index of this process in its job; None if unknown."""
        return self._default_task()[1] if self._task_id is None else self._task_id

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    @property
    def environment(self) -> str | None:
        """The environment, such as "google"; empty for most."""
        return self._environment or ""

    def num_accelerators(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        config_proto: object = None,
    ) -> dict[str, int]:
        """Returns the numbers of GPUs and TPUs of this worker; the others have as many.

        The arguments are TensorFlow's and are ignored.
        """
        del task_type, task_id, config_proto
        return self._accelerators()

    def _find_address(self, task_type: str | None, task_id: int | None) -> str:
        """Returns the address of a task, by default of this process; "" if unknown."""
        task_type = self.task_type if task_type is None else task_type
        task_id = self.task_id if task_id is None else task_id
        if task_type is None or task_id is None:
            return ""
        return self.cluster_spec().task_address(task_type, task_id)

    def _default_task(self) -> tuple[str | None, int | None]:
        """Returns job and index of this process, unless the user has set them."""
        return None, None

    def _accelerators(self) -> dict[str, int]:
        counts = {kind: count_physical_devices(kind) for kind in ("GPU", "TPU")}
        return {kind: count for kind, count in counts.items() if count}


def import_client(package: str, modules: Sequence[str]) -> list[ModuleType]:
    """Returns modules of a package that is no dependency of Mirrax."""
    try:
        return [importlib.import_module(module) for module in modules]
    except ImportError:
        raise ImportError(
            f"This cluster resolver needs the package {package}. Received: it is not "
            f"installed. Run `pip install {package}`, or use TF_CONFIG."
        ) from None
