"""Parser of TensorFlow's device names."""

from __future__ import annotations

import dataclasses
import re

from mirrax.errors import ConfigurationError

LOCAL_TASK = "/job:localhost/replica:0/task:0"
"""The task name of a process outside any cluster."""

KINDS = ("CPU", "GPU", "TPU")

_KIND_OF = {"CPU": "CPU", "GPU": "GPU", "CUDA": "GPU", "ROCM": "GPU", "TPU": "TPU"}
# Nine digits fit every number that XLA can hold.
_PART = re.compile(
    r"job:(?P<job>[A-Za-z][A-Za-z0-9_.\-]*)|replica:(?P<replica>[0-9]{1,9})"
    r"|task:(?P<task>[0-9]{1,9})"
    rf"|(device:)?(?P<kind>(?i:{'|'.join(_KIND_OF)}))(:(?P<index>[0-9]{{1,9}}))?"
)
_EXAMPLES = (
    "Use a name such as 'CPU:0', '/gpu:1' or "
    "'/job:worker/replica:0/task:0/device:GPU:0'."
)


@dataclasses.dataclass(frozen=True)
class DeviceName:
    """The parts of a device name.

    >>> str(DeviceName(kind="GPU", index=1))
    '/job:localhost/replica:0/task:0/device:GPU:1'
    """

    job: str = "localhost"
    replica: int = 0
    task: int = 0
    kind: str = "CPU"
    index: int = 0

    @property
    def process(self) -> str:
        """The process part: `/job:localhost/replica:0/task:0`."""
        return f"/job:{self.job}/replica:{self.replica}/task:{self.task}"

    @property
    def short(self) -> str:
        """The device part: `CPU:0`."""
        return f"{self.kind}:{self.index}"

    def __str__(self) -> str:
        return f"{self.process}/device:{self.short}"


def parse(text: str) -> DeviceName:
    """Parses a device name; missing parts default to localhost and 0.

    >>> parse("/job:worker/task:1/gpu:2")
    DeviceName(job='worker', replica=0, task=1, kind='GPU', index=2)
    """
    if not isinstance(text, str):
        raise TypeError(
            "A device name must be a string. "
            f"Received: {text!r} of type {type(text).__name__}. {_EXAMPLES}"
        )
    fields: dict[str, str] = {}
    for part in text.removeprefix("/").split("/"):
        match = _PART.fullmatch(part)
        found = {k: v for k, v in match.groupdict().items() if v} if match else {}
        if not found or fields.keys() & found.keys():
            raise _invalid(repr(part), text)
        fields |= found
    if "kind" not in fields:
        raise _invalid("no kind of device", text)
    kind = _KIND_OF[fields["kind"].upper()]
    replica, task, index = (int(fields.get(k, 0)) for k in ("replica", "task", "index"))
    return DeviceName(fields.get("job", "localhost"), replica, task, kind, index)


def find_kind(text: str) -> str | None:
    """Returns the kind of device for a platform or alias; None if unknown.

    >>> find_kind("cuda")
    'GPU'
    """
    return _KIND_OF.get(text.upper())


def _invalid(wrong: str, text: str) -> ConfigurationError:
    return ConfigurationError(
        f"A device name has one kind of device ({', '.join(_KIND_OF)}), which an index "
        "may follow, and at most one job, replica and task: a word and two numbers. "
        f"Received: {wrong} in {text!r}. {_EXAMPLES}"
    )
