import json

import pytest

from mirrax.devices import cpu_threads
from mirrax.launch import worker_plan
from mirrax.launch.worker_plan import (
    make_environment,
    plan_hosts,
    plan_local,
)


def test_local_plan_has_its_own_ports_and_token():
    first, second = plan_local(3), plan_local(3)
    assert first.local == (0, 1, 2)
    assert len({worker.address for worker in first.workers}) == 3
    assert first.token != second.token
    assert first.hosts_coordinator


def test_hosts_share_one_plan():
    plans = [plan_hosts(["a:7", "b:9"], index, num_workers=2) for index in (0, 1)]
    assert plans[0].workers == plans[1].workers
    assert [w.address for w in plans[0].workers] == ["a:8", "a:9", "b:10", "b:11"]
    assert [plan.local for plan in plans] == [(0, 1), (2, 3)]
    assert [plan.hosts_coordinator for plan in plans] == [True, False]


def test_coordinator_listens_where_others_reach_it(monkeypatch):
    monkeypatch.setattr(worker_plan, "find_reachable_host", lambda *_: "10.0.0.1")
    plans = [plan_hosts(["a:7", "b:9"], index, num_workers=1) for index in (0, 1)]
    assert [plan.coordinator for plan in plans] == [("10.0.0.1", 7), ("a", 7)]
    assert plans[0].workers == plans[1].workers


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: plan_local(0), "must be 1 or more. Received: 0"),
        (lambda: plan_hosts(["a:1"], 1, 1), "--host-index must be from 0 to 0"),
        (lambda: plan_hosts(["a"], 0, 1), "An address is 'host:port'"),
        (lambda: plan_hosts(["a:1", "a:1"], 0, 1), "name each machine once"),
    ],
    ids=["no_workers", "index", "address", "twice"],
)
def test_wrong_plan_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_environment_tells_a_worker_who_it_is():
    plan = plan_local(2)
    made = make_environment(plan, 1, 5000, {"HOME": "/"}, devices_per_worker=3)
    config = json.loads(made["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 1}
    assert config["cluster"] == {"worker": [w.address for w in plan.workers]}
    assert made["MIRRAX_COORDINATOR"] == "127.0.0.1:5000"
    assert made["MIRRAX_TOKEN"] == plan.token
    assert made["JAX_NUM_CPU_DEVICES"] == "3"
    assert made["MIRRAX_DEVICES_PER_WORKER"] == "3"
    assert int(made["PJRT_NPROC"]) >= 6
    assert made["HOME"] == "/"


def test_workers_with_a_device_each_share_the_cores(monkeypatch):
    for cores, threads in ((1, "2"), (2, "2"), (8, "4")):
        monkeypatch.setattr(cpu_threads, "count_cores", lambda cores=cores: cores)
        made = make_environment(plan_local(2), 0, 5000, {}, None)
        assert made["PJRT_NPROC"] == threads


def test_environment_has_the_usual_names_for_ranks():
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    plan = plan_hosts(["a:7", "b:9"], 1, num_workers=2)
    made = make_environment(plan, 3, 1, {"RANK": "0", "LOCAL_RANK": "0"})
    assert [made[name] for name in names] == ["3", "4", "1", "2"]


def test_what_the_user_has_set_stays():
    made = make_environment(plan_local(2), 0, 1, {"OMP_NUM_THREADS": "7"})
    assert made["OMP_NUM_THREADS"] == "7"
    assert "JAX_NUM_CPU_DEVICES" not in made
