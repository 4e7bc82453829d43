"""What libraries note per thread is out of the way while a replica waits."""

import contextlib

import pytest

import mirrax
from mirrax.context import stack


class Library:
    """Notes, as a library might, which of its functions is running."""

    def __init__(self):
        self.running = []

    @contextlib.contextmanager
    def put_away(self):
        noted, self.running = self.running, []
        yield
        self.running = noted

    @contextlib.contextmanager
    def runs(self, name):
        self.running.append(name)
        yield
        self.running.pop()


@pytest.fixture
def library(monkeypatch):
    library = Library()
    monkeypatch.setattr(stack, "_library_state", [])
    stack.register_library_state(library.put_away)
    return library


def test_each_replica_finds_its_own_notes_after_a_meeting(two_replicas, library):
    seen = []

    def step():
        context = mirrax.get_replica_context()
        number = context.replica_id_in_sync_group
        with library.runs(number):
            context.all_reduce("SUM", 1.0)
            seen.append((number, list(library.running)))

    two_replicas.run(step)
    assert seen == [(0, [0]), (1, [1])]
    assert library.running == []
