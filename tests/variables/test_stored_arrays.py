"""What a variable holds between programs."""

import threading

from mirrax.variables import aliasing
from mirrax.variables.array_storage import Stored


class Held(Stored):
    """Holds one object; anything will do."""

    def __init__(self, value, place=None):
        self._slot = ([None], 0) if place is None else place
        self.is_aliased = False
        self.stored = value


def test_stored_array_is_no_ones_else():
    held = Held("old")
    held.is_aliased = True
    held.store("new")
    assert held.stored == "new"
    assert not held.is_aliased


def test_setting_alone_leaves_it_lent():
    """For who changes nothing but the place in memory."""
    held = Held("old")
    held.is_aliased = True
    held.stored = "new"
    assert held.is_aliased


def test_nobody_reads_while_an_array_is_stored():
    free = []

    def try_to_lock():
        is_free = aliasing.lock.acquire(blocking=False)
        free.append(is_free)
        if is_free:
            aliasing.lock.release()

    class Row(list):
        is_watched = False

        def __setitem__(self, index, value):
            if self.is_watched:
                thread = threading.Thread(target=try_to_lock)
                thread.start()
                thread.join()
            super().__setitem__(index, value)

    row = Row([None])
    held = Held("old", (row, 0))
    row.is_watched = True
    held.store("new")
    row.is_watched = False
    assert free == [False]
    try_to_lock()
    assert free == [False, True]


def test_read_while_the_array_is_moved_finds_it():
    new = ["array"]

    class MovedMeanwhile(list):
        def __getitem__(self, index):
            held.move_to((new, 0))
            return super().__getitem__(index)

    held = Held("array", (MovedMeanwhile([None]), 0))
    assert held.stored == "array"


def test_what_is_gone_leaves_its_place_empty():
    row = ["a", None, "c"]
    held = Held("b", (row, 1))
    assert row == ["a", "b", "c"]
    del held
    assert row == ["a", None, "c"]


def test_moved_one_that_is_gone_leaves_the_new_place_empty():
    old, new = [None], ["array"]
    held = Held("array", (old, 0))
    held.move_to((new, 0))
    old[0] = "another's"
    del held
    assert (old, new) == (["another's"], [None])


def test_one_that_was_never_made_goes_quietly():
    """As after an error in its initial value; a warning would fail the test."""
    held = object.__new__(Held)
    del held
