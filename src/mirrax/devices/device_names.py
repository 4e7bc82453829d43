"""Parser of TensorFlow's device names."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from mirrax.errors import ConfigurationError

LOCAL_TASK = "/job:localhost/replica:0/task:0"
"""The task name of a process outside any cluster."""

KINDS = ("CPU", "GPU", "TPU")

_KIND_OF = {"CPU": "CPU", "GPU": "GPU", "CUDA": "GPU", "ROCM": "GPU", "TPU": "TPU"}
_JOB = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*")
# Nine digits fit every number that XLA can hold.
_NUMBER = re.compile(r"[0-9]{1,9}")
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
    fields: dict[str, str | int] = {}
    for field, value in _read_fields(text):
        if field in fields:
            raise _invalid(text, f"gives each part once, here the {field} comes twice")
        fields[field] = value
    if "kind" not in fields:
        raise _invalid(text, f"names a kind of device ({', '.join(KINDS)})")
    return DeviceName(**fields)  # type: ignore[arg-type]


def find_kind(text: str) -> str | None:
    """Returns the kind of device for a platform or alias; None if unknown.

    >>> find_kind("cuda")
    'GPU'
    """
    return _KIND_OF.get(text.upper())


def _read_fields(text: str) -> Iterator[tuple[str, str | int]]:
    for part in text.removeprefix("/").split("/"):
        match part.split(":"):
            case ["job", job]:
                if not _JOB.fullmatch(job):
                    raise _invalid(text, f"has a word as its job, here it is {job!r}")
                yield "job", job
            case ["replica" | "task" as field, digits]:
                yield field, _read_number(text, field, digits)
            case ["device", kind] | [kind]:
                yield "kind", _read_kind(text, kind)
            case ["device", kind, digits] | [kind, digits]:
                yield "kind", _read_kind(text, kind)
                yield "index", _read_number(text, "index", digits)
            case _:
                raise _unknown(text, part)


def _read_kind(text: str, word: str) -> str:
    kind = find_kind(word)
    if kind is None:
        raise _unknown(text, word)
    return kind


def _read_number(text: str, field: str, digits: str) -> int:
    if not _NUMBER.fullmatch(digits):
        raise _invalid(text, f"has a number as its {field}, here it is {digits!r}")
    return int(digits)


def _unknown(text: str, word: str) -> ConfigurationError:
    parts = f"a kind of device ({', '.join(_KIND_OF)}), a job, a replica and a task"
    return _invalid(text, f"consists of {parts}, and {word!r} is none of them")


def _invalid(text: str, rule: str) -> ConfigurationError:
    return ConfigurationError(f"A device name {rule}. Received: {text!r}. {_EXAMPLES}")
