"""What moves data between workers: JAX has one way for each kind of device."""

from __future__ import annotations

import warnings

from mirrax.options import CollectiveCommunication as Choice

# For each kind of device what JAX uses, and which choices mean just that.
_TRANSPORTS = {
    "CPU": ("Gloo", {Choice.AUTO, Choice.RING}),
    "GPU": ("NCCL", {Choice.AUTO, Choice.NCCL}),
    "TPU": ("the TPU's own network", {Choice.AUTO}),
}


def check_choice(choice: Choice, device_kind: str) -> None:
    """Warns if JAX cannot do as the user wishes, and says what it does instead.

    No error, as in TensorFlow: it changes the speed and not the results, and a program
    for GPUs can be tried on a CPU.

    Args:
        choice: What the options say.
        device_kind: The kind of the devices: CPU, GPU or TPU.
    """
    if device_kind not in _TRANSPORTS:
        return
    used, accepted = _TRANSPORTS[device_kind]
    if choice not in accepted:
        warnings.warn(
            f"Between {device_kind} devices data go over {used}. Received: "
            f"CommunicationOptions(implementation={choice.name}), which has no effect "
            "here. Leave it out, or use AUTO.",
            stacklevel=3,
        )
