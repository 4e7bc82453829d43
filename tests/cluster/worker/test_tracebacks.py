import traceback

import pytest

import mirrax
from mirrax import errors
from mirrax.cluster.worker.tracebacks import (
    find_error_line,
    hide_own_frames,
    summarize,
)

REMOTE = """\
On worker 1: Traceback (most recent call last):
  File "train.py", line 9, in step
KeyError: 'the cause'
--------------------
A note of another library."""


@pytest.fixture
def own_error(two_replicas):
    """An error of this file, raised through frames of Mirrax, and its cause."""

    def fail():
        try:
            raise ValueError("first")
        except ValueError as error:
            raise KeyError("second") from error

    try:
        two_replicas.run(fail)
    except KeyError as error:
        return error


def list_files(error):
    frames = traceback.extract_tb(error.__traceback__)
    return {frame.filename.rpartition("/src/")[2] for frame in frames}


def test_own_frames_are_hidden(own_error):
    assert any(name.startswith("mirrax/") for name in list_files(own_error))
    hide_own_frames(own_error)
    assert list_files(own_error) == {__file__}
    assert traceback.extract_tb(own_error.__traceback__)[-1].name == "fail"


def test_own_frames_are_shown_if_asked_for(own_error, monkeypatch):
    monkeypatch.setenv("MIRRAX_FULL_TRACEBACK", "1")
    hide_own_frames(own_error)
    assert any(name.startswith("mirrax/") for name in list_files(own_error))
    assert summarize(errors.WorkerLost("text"), None) == ""


def test_traceback_of_own_frames_only_stays(monkeypatch):
    with pytest.raises(TypeError) as info:
        mirrax.function(1)
    trace = info.value.__traceback__ = info.value.__traceback__.tb_next
    hide_own_frames(info.value)
    assert info.value.__traceback__ is trace


def test_survivor_says_the_cause_and_its_place_first():
    try:
        raise errors.WorkerFailed(f"worker 1 failed.\n{REMOTE}", worker=1)
    except errors.WorkerFailed as error:
        lines = summarize(error, error.__traceback__).splitlines()
    start = f"mirrax.errors.WorkerFailed: worker 1 failed. Stopped at {__file__}:"
    assert lines[0].startswith(start)
    assert lines[0].endswith(". The cause is KeyError: 'the cause'")
    assert "\n".join(lines[1:]) == REMOTE


def test_other_errors_have_no_summary():
    assert summarize(KeyError(1), None) == ""


@pytest.mark.parametrize("text", ["", "no traceback", "a\nb"])
def test_text_without_a_traceback_has_no_error(text):
    assert find_error_line(text) == ""
