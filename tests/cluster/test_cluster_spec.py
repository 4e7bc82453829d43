import pytest

from mirrax.cluster_resolver import ClusterSpec

SPEC = ClusterSpec({"worker": ["a:1", "b:1"], "ps": {3: "c:1"}})


def test_dense_jobs_are_lists_and_others_dictionaries():
    assert SPEC.as_dict() == {"worker": ["a:1", "b:1"], "ps": {3: "c:1"}}


def test_questions_about_a_job_are_answered():
    assert SPEC.jobs == ["worker", "ps"]
    assert SPEC.num_tasks("worker") == 2
    assert SPEC.task_indices("ps") == [3]
    assert SPEC.task_address("ps", 3) == "c:1"
    assert SPEC.job_tasks("ps") == [None, None, None, "c:1"]


def test_jobs_are_in_the_order_of_tensorflow():
    assert list(SPEC.as_dict()) == ["worker", "ps"]
    assert ClusterSpec(SPEC).jobs == ["ps", "worker"]
    text = "ClusterSpec({'ps': {3: 'c:1'}, 'worker': ['a:1', 'b:1']})"
    assert repr(SPEC) == text


def test_copy_is_equal_and_empty_is_false():
    assert ClusterSpec(SPEC) == SPEC
    assert hash(ClusterSpec(SPEC)) == hash(SPEC)
    assert ClusterSpec({"worker": ["a:1"]}) != SPEC
    assert not ClusterSpec({})


def test_task_indices_may_be_text():
    assert ClusterSpec({"worker": {"0": "a:1"}}).as_dict() == {"worker": ["a:1"]}


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: SPEC.num_tasks("chief"), "No such job in cluster: 'chief'"),
        (lambda: SPEC.task_address("ps", 0), "No task with index 0 in job 'ps'"),
    ],
    ids=["job", "task"],
)
def test_unknown_names_are_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        (["a:1"], "must be a dictionary from job names"),
        ({"worker": "a:1"}, "must be a list or a dictionary"),
        ({"worker": [1]}, "address must be a string"),
        ({1: ["a:1"]}, "name must be a string"),
    ],
    ids=["list", "text", "number", "job"],
)
def test_wrong_kinds_are_refused(cluster, message):
    with pytest.raises(TypeError, match=message):
        ClusterSpec(cluster)


def test_records_describe_the_cluster():
    spec = ClusterSpec({"worker": ["a:1", "b:1"], "ps": {3: "c:1"}})
    records = spec.as_cluster_def()
    assert [job.name for job in records.job] == ["ps", "worker"]
    assert [job.tasks for job in records.job] == [{3: "c:1"}, {0: "a:1", 1: "b:1"}]
    assert ClusterSpec(records) == spec
