"""`tf.DeviceSpec`: the parts of a device's name."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

_PARTS = re.compile(
    r"/(?:(job):([^/:]+)|(replica):(\d+)|(task):(\d+)"
    r"|(device:\w+|[CGT]PU)(?::(\d+|\*))?)",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class DeviceSpec:
    """A device name in its parts; a part that is None is not given.

    >>> spec = DeviceSpec.from_string("/job:worker/task:1/GPU:0")
    >>> spec.job, spec.task, spec.to_string()
    ('worker', 1, '/job:worker/task:1/device:GPU:0')
    """

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None

    def __post_init__(self) -> None:
        if self.device_type is not None:
            object.__setattr__(self, "device_type", self.device_type.upper())

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Returns the parts of a name, or of the device of a tensor."""
        found: dict[str, Any] = {}
        spec = str(spec)
        text = spec if not spec or spec.startswith("/") else f"/{spec}"
        for match in _PARTS.finditer(text):
            job, replica, task, kind = match.group(2, 4, 6, 7)
            if kind is not None:
                index = match.group(8)
                found["device_type"] = kind.rpartition(":")[2]
                found["device_index"] = None if index in ("*", None) else int(index)
            elif job is not None:
                found["job"] = job
            elif replica is not None:
                found["replica"] = int(replica)
            else:
                found["task"] = int(task)
        if _PARTS.sub("", text):
            raise ValueError(
                "A device name is written as in '/job:worker/task:0/device:GPU:1'. "
                f"Received: {spec!r}."
            )
        return cls(**found)

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Returns the parts of a name; those of this object do not count."""
        return self.from_string(spec)

    def to_string(self) -> str:
        """Returns the name."""
        named = (("job", self.job), ("replica", self.replica), ("task", self.task))
        text = "".join(f"/{part}:{value}" for part, value in named if value is not None)
        if self.device_type is None:
            return text
        index = "*" if self.device_index is None else self.device_index
        return f"{text}/device:{self.device_type}:{index}"

    def replace(self, **changes: Any) -> DeviceSpec:
        """Returns a copy with other parts."""
        return dataclasses.replace(self, **changes)

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """Returns a copy with the parts that `dev` has."""
        given = {k: v for k, v in dataclasses.asdict(dev).items() if v is not None}
        return dataclasses.replace(self, **given)
