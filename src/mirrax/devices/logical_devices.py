"""The logical devices of this process: JAX's devices by their TensorFlow names."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Sequence

import jax

from mirrax._jax.distributed import backend_is_up, backends
from mirrax.devices import cpu_threads
from mirrax.devices.device_names import KINDS, LOCAL_TASK, DeviceName, find_kind, parse
from mirrax.errors import ConfigurationError

# More are a typo: each needs two threads.
MAX_CPU_DEVICES = 1024


@dataclasses.dataclass(frozen=True)
class LogicalDevice:
    """A device that replicas can run on."""

    name: str
    device_type: str


def local_devices(kind: str) -> tuple[jax.Device, ...]:
    """Returns the devices of one kind in this process; starts JAX's backend.

    >>> local_devices("TPU")
    ()
    """
    cpu_threads.reserve_requested()
    return tuple(
        device
        for platform in _start_backends()
        if find_kind(platform) == kind
        for device in jax.local_devices(backend=platform)
    )


def _start_backends() -> Iterable[str]:
    try:
        return backends()
    except AssertionError as error:  # What JAX raises if there is no backend at all.
        raise RuntimeError(
            "JAX found none of the allowed platforms. Received: "
            f"JAX_PLATFORMS={jax.config.jax_platforms!r}. Install JAX's plugin for it, "  # type: ignore[attr-defined]
            "set the variable to 'cpu', or unset it to use the best device."
        ) from error


def default_devices() -> tuple[jax.Device, ...]:
    """Returns the devices to train on: all TPUs, else all GPUs, else all CPUs."""
    return local_devices("TPU") or local_devices("GPU") or local_devices("CPU")


def set_cpu_devices(count: int) -> None:
    """Sets the number of logical CPU devices; raises if JAX started with another."""
    _check_count(count)
    if backend_is_up():
        if count != len(local_devices("CPU")):
            raise _too_late(count)
        return
    jax.config.update("jax_num_cpu_devices", count)
    cpu_threads.reserve(count)


def ensure_cpu_devices(count: int) -> None:
    """Raises the number of logical CPU devices to `count`, if it is lower."""
    _check_count(count)
    if backend_is_up():
        if count > len(local_devices("CPU")):
            raise _too_late(count)
    elif count > cpu_threads.requested_cpu_devices():
        set_cpu_devices(count)


def resolve(names: Sequence[str | LogicalDevice]) -> tuple[jax.Device, ...]:
    """Returns the devices of this process with these names.

    Creates the named CPU devices if JAX has not started yet.

    >>> resolve(["CPU:0"])
    (CpuDevice(id=0),)
    """
    texts = [name.name if isinstance(name, LogicalDevice) else name for name in names]
    parsed = [_parse_local(text) for text in texts]
    cpu_indices = [name.index for name in parsed if name.kind == "CPU"]
    if cpu_indices:
        ensure_cpu_devices(max(cpu_indices) + 1)
    return tuple(_find_device(name) for name in parsed)


def device_kind(device: jax.Device) -> str:
    """Returns the kind of a device: CPU, GPU or TPU."""
    kind = find_kind(device.platform)
    if kind is None:
        raise ValueError(
            f"Mirrax runs on devices of these kinds: {', '.join(KINDS)}. "
            f"Received: {device} of platform {device.platform!r}. "
            "Choose other devices, or set JAX_PLATFORMS."
        )
    return kind


def name_of(device: jax.Device, task: str = LOCAL_TASK) -> str:
    """Returns the full TensorFlow name of a device.

    >>> name_of(jax.local_devices()[0])
    '/job:localhost/replica:0/task:0/device:CPU:0'
    """
    siblings = jax.local_devices(device.process_index, backend=device.platform)
    return f"{task}/device:{device_kind(device)}:{siblings.index(device)}"


def _parse_local(text: str) -> DeviceName:
    name = parse(text)
    if name.process != LOCAL_TASK:
        raise ConfigurationError(
            f"A device must belong to this process, which is {LOCAL_TASK!r}. "
            f"Received: {text!r}. Use {name.short!r} for a device of this process, "
            "or MultiWorkerMirroredStrategy for devices of several."
        )
    return name


def _find_device(name: DeviceName) -> jax.Device:
    devices = local_devices(name.kind)
    if name.index < len(devices):
        return devices[name.index]
    existing = [
        f"{kind}:{index}" for kind in KINDS for index in range(len(local_devices(kind)))
    ]
    hint = "" if devices else f" To use a {name.kind}, install JAX with support for it."
    raise ConfigurationError(
        "A device must be one that this process has. "
        f"Received: {name.short!r}. Use one of {', '.join(existing)}.{hint}"
    )


def _check_count(count: int) -> None:
    if not 1 <= operator.index(count) <= MAX_CPU_DEVICES:
        raise ValueError(
            f"The number of logical CPU devices must be from 1 to {MAX_CPU_DEVICES}. "
            f"Received: {count}. Ask for as many as you have replicas."
        )


def _too_late(count: int) -> ConfigurationError:
    return ConfigurationError(
        "Logical devices cannot be modified after being initialized: JAX makes its CPU "
        "devices once, at the first operation. "
        f"Received: {count} CPU devices wanted, {len(local_devices('CPU'))} made. "
        "Create the strategy before the first JAX operation, or call "
        f"mirrax.config.set_logical_devices('CPU', {count}) first. In a notebook, "
        "restart the kernel, and do that in the first cell."
    )
