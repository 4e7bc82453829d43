"""Damages files and JSON values at random, from a seed, within limits."""

import contextlib
import json
import random
import signal
import tracemalloc

SEED = 20


@contextlib.contextmanager
def limits(seconds=120, megabytes=64):
    """Raises in code that hangs; fails if it allocates much more than it is given."""

    def stop(*_):
        raise TimeoutError(f"still running after {seconds} s")

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
    assert peak < megabytes << 20


def damaged_bytes(data, count):
    """Yields `count` variants of bytes."""
    rng = random.Random(SEED)
    for _ in range(count):
        made = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            position = rng.randrange(len(made) + 1)
            match rng.randrange(4):
                case 0:
                    made[position:] = b""
                case 1:
                    made[position:position] = rng.randbytes(rng.randint(1, 9))
                case 2:
                    del made[position : position + rng.randint(1, 9)]
                case _ if position < len(made):
                    made[position] ^= 1 << rng.randrange(8)
        yield bytes(made)


_VALUES = [None, True, -1, 0, 1, 7, 2**70, 1e300, "", "text", [], {}, [0], {"a": 1}]


def damaged_json(value, count):
    """Yields `count` variants of a JSON value."""
    rng = random.Random(SEED)
    for _ in range(count):
        made = [json.loads(json.dumps(value))]
        for _ in range(rng.randint(1, 2)):
            holder, key = rng.choice(list(_places(made)))
            match rng.randrange(3):
                case 0 if isinstance(holder, dict):
                    del holder[key]
                case 1 if isinstance(holder[key], int):
                    holder[key] += rng.choice([-1, 1, 1000])
                case _:
                    holder[key] = rng.choice(_VALUES)
        yield made[0]


def _places(holder):
    """Yields containers and keys, so that `holder[key]` is each value inside."""
    keys = list(holder) if isinstance(holder, dict) else range(len(holder))
    for key in keys:
        yield holder, key
        if isinstance(holder[key], dict | list):
            yield from _places(holder[key])
