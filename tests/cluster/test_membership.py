import pytest

from mirrax.cluster.membership import (
    Worker,
    find_membership,
    split_address,
    summarize_workers,
)
from mirrax.cluster_resolver import ClusterSpec

WORKERS = {"worker": ["a:1", "b:1"]}


def find(cluster, task_type=None, task_id=None):
    return find_membership(ClusterSpec(cluster), task_type, task_id)


def test_chief_comes_first():
    membership = find({"worker": ["a:1"], "chief": ["b:1"]}, "worker", 0)
    assert [worker.name for worker in membership.workers] == ["chief 0", "worker 0"]
    assert membership.me.name == "worker 0"


@pytest.mark.parametrize(
    "case",
    [
        ({},),
        ({"worker": ["a:1"]},),
        ({"worker": ["a:1"]}, "worker", 0),
        ({**WORKERS, "evaluator": ["c:1"]}, "evaluator", 0),
        (WORKERS, "evaluator", 0),
    ],
    ids=["empty", "one", "one_named", "evaluator", "unlisted_evaluator"],
)
def test_some_processes_train_alone(case):
    assert find(*case) is None


def test_ps_entries_do_not_count():
    membership = find({**WORKERS, "ps": ["c:1"]}, "worker", 1)
    assert len(membership.workers) == 2


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            (WORKERS,),
            "must say which of them this process is.*worker 0, worker 1",
        ),
        ((WORKERS, "worker"), "must say which of them"),
        ((WORKERS, "worker", 2), "must be one of the workers"),
        (({"worker": ["a:1"]}, "worker", 1), "must be one of the workers"),
        (({**WORKERS, "ps": ["c:1"]}, "ps", 0), "Do not start this task"),
        (({"worker": ["a", "b"]}, "worker", 0), "An address is 'host:port'"),
    ],
    ids=["no_task", "no_index", "no_such_task", "one_worker", "ps", "no_port"],
)
def test_no_job_of_several_runs_alone(case, message):
    with pytest.raises(ValueError, match=message):
        find(*case)


@pytest.mark.parametrize(
    "address",
    [
        *("a", "a:", ":1", "a:0", "a b:1", "http://a:1"),
        *("a\0b:1", "a..b:1", f"{'a' * 64}:1", f"{'abc.' * 64}:1", "a:000080"),
    ],
)
def test_wrong_address_is_refused(address):
    with pytest.raises(ValueError, match="An address is 'host:port'"):
        split_address(address)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.1:1", "10.0.0.1"),
        ("a-b.c_d.example.:1", "a-b.c_d.example."),
        ("b\u00fccher.example:1", "b\u00fccher.example"),
        ("[fe80::1%eth0]:1", "fe80::1%eth0"),
    ],
    ids=["number", "name", "umlaut", "ipv6"],
)
def test_usual_address_is_split(address, host):
    assert split_address(address) == (host, 1)


def test_many_workers_are_summarized_by_a_digest_that_tells_them_apart():
    workers = [Worker("worker", i, f"host{i}:2222") for i in range(65)]
    summary = summarize_workers(workers)
    assert summary.startswith("65 workers with the digest ")
    assert summary == summarize_workers(list(workers))
    moved = [*workers[:-1], Worker("worker", 64, "elsewhere:2222")]
    assert summarize_workers(moved) != summary
