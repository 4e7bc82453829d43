"""Measuring two ways of doing the same in one interleaved run.

The machine may be shared and noisy, so only ratios count: the two take turns in short
rounds, and the median of the rounds' ratios is reported.
"""

import dataclasses
import statistics
import time


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The outcome: median seconds for one call of each, and the median ratio."""

    ours: float
    theirs: float
    ratio: float

    def report(self, name, limit):
        """Prints a line; returns whether the ratio keeps to the limit."""
        verdict = "ok" if self.ratio <= limit else "MISSED"
        print(
            f"{name:48s} {self.ours * 1e6:9.1f} us  against {self.theirs * 1e6:9.1f} us"
            f"   ratio {self.ratio:5.2f}  (limit {limit:.2f}: {verdict})",
            flush=True,
        )
        return self.ratio <= limit


def compare(ours, theirs, calls=20, rounds=40):
    """Returns how `ours` compares with `theirs`; both are functions of no argument.

    What they return, or what that returns if it can be called, is waited for at the end
    of a round.
    """
    for _ in range(3):
        timed(ours, calls)
        timed(theirs, calls)
    pairs = []
    for turn in range(rounds):
        if turn % 2:
            second, first = timed(theirs, calls), timed(ours, calls)
        else:
            first, second = timed(ours, calls), timed(theirs, calls)
        pairs.append((first, second))
    return Comparison(
        statistics.median(ours for ours, _ in pairs),
        statistics.median(theirs for _, theirs in pairs),
        statistics.median(ours / theirs for ours, theirs in pairs),
    )


def timed(function, calls):
    """Returns the seconds of one call, averaged over `calls`."""
    import jax

    start = time.perf_counter()
    for _ in range(calls):
        result = function()
    jax.block_until_ready(result() if callable(result) else result)
    return (time.perf_counter() - start) / calls


def best(function, calls=200, rounds=15):
    """Returns the seconds of one call in the quietest round."""
    timed(function, calls)
    return min(timed(function, calls) for _ in range(rounds))
