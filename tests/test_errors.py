"""Errors: caught by the names that people know, and with what they tell."""

import pickle

import pytest

from mirrax import errors

ALL = [e for e in vars(errors).values() if isinstance(e, type)]
OF_JOBS = [e for e in ALL if issubclass(e, errors.JobError)]


@pytest.mark.parametrize(
    ("error", "kinds"),
    [
        (errors.DataLossError, [ValueError]),
        (errors.NotFoundError, [FileNotFoundError, OSError]),
        (errors.InvalidArgumentError, [ValueError]),
        (errors.ConfigurationError, [ValueError, RuntimeError]),
        (errors.ReplicaError, [RuntimeError]),
        (errors.DuplicateDevice, [AssertionError, ValueError]),
        (errors.LossyConversion, [TypeError, ValueError]),
        (errors.WrongType, [TypeError, ValueError]),
        (errors.SignatureMismatch, [TypeError, ValueError]),
        (errors.CheckpointMismatchError, [ValueError]),
        (errors.CheckpointObjectError, [TypeError, ValueError]),
        (errors.CheckpointDamagedError, [OSError]),
        (errors.JobError, [RuntimeError]),
        (errors.WorkerLost, [errors.JobError]),
        (errors.WorkerFailed, [errors.JobError]),
        (errors.CollectiveTimeout, [errors.JobError]),
        (errors.ProgramMismatch, [errors.JobError]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("position", [0, -1], ids=["first", "last"])
def test_error_is_caught_as_what_people_expect(error, kinds, position):
    with pytest.raises(kinds[position], match="a reason"):
        raise error("a reason")


def test_end_of_an_iterator_is_no_other_error():
    """A loop that catches `ValueError` or `RuntimeError` does not take it for one."""
    assert errors.OutOfRangeError.__bases__ == (Exception,)


def test_damaged_checkpoint_is_no_missing_one():
    assert not issubclass(errors.CheckpointDamagedError, FileNotFoundError)


@pytest.mark.parametrize("error", OF_JOBS, ids=lambda e: e.__name__)
def test_error_of_a_job_tells_where_it_happened(error):
    raised = error("gone", worker=2, host="node-7", phase="run", step=41)
    assert str(raised) == "gone"
    found = (raised.worker, raised.host, raised.phase, raised.step)
    assert found == (2, "node-7", "run", 41)


@pytest.mark.parametrize("error", OF_JOBS, ids=lambda e: e.__name__)
def test_error_of_a_job_may_know_nothing_but_its_message(error):
    raised = error("gone")
    found = (raised.worker, raised.host, raised.phase, raised.step)
    assert found == (None, "", "", None)


def test_facts_of_a_job_error_are_named():
    with pytest.raises(TypeError, match="positional argument"):
        errors.JobError("gone", 2)


@pytest.mark.parametrize("error", ALL, ids=lambda e: e.__name__)
def test_error_can_be_pickled(error):
    """As between the processes of a pool."""
    again = pickle.loads(pickle.dumps(error("a reason")))
    assert type(again) is error
    assert str(again) == "a reason"


def test_pickled_error_of_a_job_keeps_its_facts():
    error = errors.WorkerLost("gone", worker=2, host="node-7", phase="run", step=41)
    again = pickle.loads(pickle.dumps(error))
    assert vars(again) == vars(error)
