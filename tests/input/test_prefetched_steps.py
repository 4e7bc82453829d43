"""Steps that a thread prepares: their ends, errors and positions."""

import copy
import threading

import pytest

from mirrax.input.prefetched_steps import StepReader


class Numbers:
    """Steps 0, 1, ... below `end`; `end` itself raises, or is the end."""

    def __init__(self, end, error=None):
        self.end, self.error = end, error
        self.next, self.ends = 0, []

    def step(self):
        if self.next < self.end:
            self.next += 1
            return self.next - 1
        self.ends.append(self.next)
        if self.error is not None:
            raise self.error
        return None

    def position(self):
        return self.next

    def seek(self, position):
        self.next = position


def reader(numbers, depth):
    return StepReader(lambda: copy.copy(numbers), lambda feed, step: step, depth)


def test_the_end_is_reached_once_and_stays():
    numbers = Numbers(2)
    steps = reader(numbers, depth=3)
    assert [steps.step() for _ in range(4)] == [0, 1, None, None]
    assert len(numbers.ends) == 1


def test_an_error_comes_after_the_steps_before_it_and_stays():
    numbers = Numbers(1, ArithmeticError("no good"))
    steps = reader(numbers, depth=3)
    assert steps.step() == 0
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="no good"):
            steps.step()
    assert (len(numbers.ends), steps.position()) == (1, 1)


def test_a_position_that_cannot_be_told_is_an_error_and_no_wait():
    class Lost(Numbers):
        def position(self):
            if self.next:
                raise LookupError("no position")
            return 0

    with pytest.raises(LookupError, match="no position"):
        reader(Lost(3), depth=1).step()


def test_a_position_is_restored_while_a_thread_waits_for_a_step():
    has_begun, may_end = threading.Event(), threading.Event()

    class Slow(Numbers):
        def step(self):
            if self.next == 1:
                has_begun.set()
                may_end.wait()
            return super().step()

    steps = reader(Slow(9), depth=1)
    assert steps.step() == 0
    has_begun.wait()
    steps.seek(5)
    assert [steps.step(), steps.position()] == [5, 6]
    may_end.set()


@pytest.mark.parametrize("depth", [0, 3])
def test_a_refused_position_changes_nothing(depth):
    class Choosy(Numbers):
        def seek(self, position):
            self.next = position
            if position < 0:
                raise ValueError("no such position")

    steps = reader(Choosy(9), depth)
    assert [steps.step(), steps.step()] == [0, 1]
    with pytest.raises(ValueError, match="no such position"):
        steps.seek(-1)
    assert steps.position() == 2
    assert steps.step() == 2
