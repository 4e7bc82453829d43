import json
import os
import types

import pytest

from mirrax import cluster_resolver as resolvers
from mirrax.cluster.resolvers.slurm import expand_hosts, expand_tasks

CLUSTER = {"chief": ["h:1"], "worker": ["a:1", "b:2"]}


@pytest.fixture
def tf_config(monkeypatch):
    value = {
        "cluster": CLUSTER,
        "task": {"type": "worker", "index": 1},
        "rpc_layer": "grpc",
    }
    monkeypatch.setenv("TF_CONFIG", json.dumps(value))


@pytest.fixture
def slurm(monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "2")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "3")
    monkeypatch.setenv("SLURM_STEP_NODELIST", "n[2-3]")
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "2,1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def simple(cluster, **options):
    spec = resolvers.ClusterSpec(cluster)
    return resolvers.SimpleClusterResolver(spec, **options)


def test_tf_config_is_read_each_time(tf_config, monkeypatch):
    resolver = resolvers.TFConfigClusterResolver()
    assert resolver.cluster_spec().as_dict() == CLUSTER
    assert (resolver.task_type, resolver.task_id) == ("worker", 1)
    assert (resolver.rpc_layer, resolver.master()) == ("grpc", "grpc://b:2")
    monkeypatch.delenv("TF_CONFIG")
    assert not resolver.cluster_spec()
    assert (resolver.task_type, resolver.task_id, resolver.master()) == (None, None, "")


def test_arguments_win_over_tf_config(tf_config):
    resolver = resolvers.TFConfigClusterResolver(
        task_type="chief", task_id=0, rpc_layer="x", environment="e"
    )
    assert resolver.master() == "x://h:1"
    assert resolver.environment == "e"
    resolver.task_type, resolver.task_id, resolver.rpc_layer = "worker", 0, "y"
    assert resolver.master() == "y://a:1"


def test_session_master_of_tf_config_is_the_master(monkeypatch):
    fields = {"cluster": CLUSTER, "session_master": "s:1"}
    monkeypatch.setenv("TF_CONFIG", json.dumps(fields))
    assert resolvers.TFConfigClusterResolver().master("worker", 0) == "s:1"


def test_single_task_of_tf_config_has_no_master(monkeypatch):
    fields = {"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(fields))
    assert resolvers.TFConfigClusterResolver().master() == ""


def test_simple_resolver_returns_what_it_was_given():
    resolver = simple(
        CLUSTER, master="m:1", task_type="chief", num_accelerators={"GPU": 2}
    )
    assert resolver.master() == "m:1"
    assert resolver.master("worker", 1, "grpc") == "grpc://b:2"
    assert resolver.num_accelerators() == {"GPU": 2}
    resolver.task_id = 0
    assert (resolver.task_type, resolver.task_id) == ("chief", 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: resolvers.SimpleClusterResolver({}), "must be a ClusterSpec"),
        (lambda: simple({}, master=1), "master must be a string"),
        (lambda: resolvers.UnionResolver("x"), "sub-class of `ClusterResolver`"),
    ],
    ids=["spec", "master", "union"],
)
def test_wrong_kind_is_refused(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_union_joins_lists_and_dictionaries():
    union = resolvers.UnionResolver(
        simple({"worker": ["a:1"], "ps": {0: "p:1"}}, task_type="worker", task_id=0),
        simple({"worker": ["b:1"], "ps": {2: "q:1"}}),
    )
    assert union.cluster_spec().as_dict() == {
        "worker": ["a:1", "b:1"],
        "ps": {0: "p:1", 2: "q:1"},
    }
    assert (union.task_type, union.task_id) == ("worker", 0)
    assert union.master("worker", 1) == "b:1"


def test_union_adds_the_rpc_layer_of_a_resolver_to_its_own_address_only():
    # As TensorFlow 2.21 answers.
    first = simple({"worker": ["a:1"]}, master="m:1", rpc_layer="grpc")
    union = resolvers.UnionResolver(first)
    assert union.master() == union.master("worker") == "grpc://m:1"
    assert union.master(rpc_layer="other") == "other://m:1"
    assert union.master("worker", 0) == "a:1"
    assert union.master("worker", 0, "other") == "other://a:1"
    named = resolvers.UnionResolver(first, rpc_layer="own")
    assert named.master("worker", 0) == "own://a:1"


def test_union_refuses_one_index_twice():
    union = resolvers.UnionResolver(
        simple({"ps": {1: "p:1"}}), simple({"ps": {1: "q:1"}})
    )
    with pytest.raises(KeyError, match="Renumber"):
        union.cluster_spec()


def test_union_of_nothing_is_refused():
    with pytest.raises(ValueError, match="At least one"):
        resolvers.UnionResolver()


def test_slurm_step_becomes_workers(slurm):
    resolver = resolvers.SlurmClusterResolver()
    addresses = ["n2:8888", "n2:8889", "n3:8888"]
    assert resolver.cluster_spec().as_dict() == {"worker": addresses}
    assert resolver.get_task_info() == ("worker", 2)
    assert resolver.master() == "grpc://n3:8888"
    assert resolver.num_accelerators() == {"GPU": 0}


def test_slurm_tasks_can_be_divided_among_jobs(slurm):
    resolver = resolvers.SlurmClusterResolver({"chief": 1, "worker": 2}, port_base=5)
    assert resolver.cluster_spec().as_dict()["chief"] == ["n2:5"]
    assert resolver.get_task_info() == ("worker", 1)


def test_slurm_task_sees_its_own_gpus(slurm, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "1")
    resolver = resolvers.SlurmClusterResolver(gpus_per_node=4)
    resolver.cluster_spec()
    assert resolver.num_accelerators() == {"GPU": 2}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"


@pytest.mark.parametrize(
    ("visible", "count", "own"),
    [("4,5,6,7", 2, "6,7"), ("4,5,6", 1, "5"), ("3", 1, "3"), ("", 0, "")],
    ids=["even", "rest_unused", "divided_by_slurm", "none"],
)
def test_slurm_divides_the_visible_gpus(slurm, monkeypatch, visible, count, own):
    monkeypatch.setenv("SLURM_PROCID", "1")
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "8")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    resolver = resolvers.SlurmClusterResolver()
    for _ in range(2):
        resolver.cluster_spec()
    assert resolver.num_accelerators() == {"GPU": count}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == own


def test_slurm_counts_gpus_if_no_variable_limits_them(slurm, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")
    assert resolvers.SlurmClusterResolver().num_accelerators() == {"GPU": 2}
    monkeypatch.delenv("SLURM_GPUS_ON_NODE")
    assert resolvers.SlurmClusterResolver().num_accelerators() == {"GPU": 0}


def test_slurm_asks_the_driver_for_gpus(slurm, monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nfor i in 0 1 2 3; do echo GPU $i: A100; done\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert resolvers.SlurmClusterResolver().num_accelerators() == {"GPU": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": {"worker": 7}}, "as many tasks as Slurm has started"),
        ({"gpus_per_node": 2, "gpus_per_task": 2}, "more GPUs than the node"),
    ],
    ids=["tasks", "gpus"],
)
def test_slurm_contradictions_are_refused(slurm, options, message):
    with pytest.raises(RuntimeError, match=message):
        resolvers.SlurmClusterResolver(**options)


def test_slurm_outside_of_a_step_says_so(monkeypatch):
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    with pytest.raises(RuntimeError, match=r"SLURM_PROCID not found.*srun"):
        resolvers.SlurmClusterResolver()


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a", ["a"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("t02n[13,41],x", ["t02n13", "t02n41", "x"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
    ids=["one", "range", "list", "two_ranges"],
)
def test_slurm_hosts_are_expanded(text, hosts):
    assert expand_hosts(text) == hosts


@pytest.mark.parametrize("text", ["n[1-x]", "n[1", "n]1"])
def test_slurm_hosts_that_cannot_be_read_are_refused(text):
    with pytest.raises(ValueError, match="SLURM_STEP_NODELIST"):
        expand_hosts(text)


def test_slurm_tasks_that_cannot_be_read_are_refused():
    with pytest.raises(ValueError, match="SLURM_STEP_TASKS_PER_NODE"):
        expand_tasks("2(3)")


def pod(name, ip, phase="Running"):
    return types.SimpleNamespace(
        metadata=types.SimpleNamespace(name=name),
        status=types.SimpleNamespace(phase=phase, pod_ip=ip, host_ip="h"),
    )


def kubernetes(*pods):
    answer = types.SimpleNamespace(items=list(pods))
    client = types.SimpleNamespace(
        list_pod_for_all_namespaces=lambda label_selector: answer
    )
    return resolvers.KubernetesClusterResolver(
        {"worker": ["app=x"]}, override_client=client
    )


def test_kubernetes_pods_become_workers_in_the_order_of_names():
    resolver = kubernetes(pod("b", "2.2.2.2"), pod("a", "1.1.1.1"))
    addresses = ["1.1.1.1:8470", "2.2.2.2:8470"]
    assert resolver.cluster_spec().as_dict() == {"worker": addresses}
    resolver.task_type, resolver.task_id = "worker", 1
    assert resolver.master() == "grpc://2.2.2.2:8470"


def test_kubernetes_pod_without_an_address_has_that_of_its_machine():
    workers = kubernetes(pod("a", None)).cluster_spec().as_dict()
    assert workers == {"worker": ["h:8470"]}


def test_kubernetes_pod_that_does_not_run_is_named():
    with pytest.raises(RuntimeError, match='Pod "a" is not running; phase: "Pending"'):
        kubernetes(pod("a", None, "Pending")).cluster_spec()


def test_kubernetes_without_its_package_says_what_to_install():
    with pytest.raises(ImportError, match="pip install kubernetes"):
        resolvers.KubernetesClusterResolver()


class FakeCompute:
    """Answers as the Compute Engine service does, in two pages."""

    def instanceGroups(self):  # noqa: N802
        return self

    def instances(self):
        return self

    def listInstances(self, **_):  # noqa: N802
        return self._request({"items": [{"instance": "zones/z/two"}]})

    def listInstances_next(self, previous_response, **_):  # noqa: N802
        if "last" in previous_response:
            return None
        return self._request({"items": [{"instance": "zones/z/one"}], "last": True})

    def get(self, instance, **_):
        ip = {"one": "10.0.0.1", "two": "10.0.0.2"}[instance]
        return self._request({"networkInterfaces": [{"networkIP": ip}]})

    def _request(self, answer):
        return types.SimpleNamespace(execute=lambda: answer)


def test_gce_instances_become_workers():
    resolver = resolvers.GCEClusterResolver(
        "p", "z", "g", 8470, task_id=1, service=FakeCompute()
    )
    addresses = ["10.0.0.1:8470", "10.0.0.2:8470"]
    assert resolver.cluster_spec().as_dict() == {"worker": addresses}
    assert resolver.master() == "grpc://10.0.0.2:8470"
    with pytest.raises(RuntimeError, match="cannot reset the task_type"):
        resolver.task_type = "chief"


def test_gce_job_may_have_no_name():
    resolver = resolvers.GCEClusterResolver(
        "p", "z", "g", 8470, task_type="", service=FakeCompute()
    )
    assert resolver.cluster_spec().jobs == [""]


def test_tpu_machines_become_workers(monkeypatch):
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "t0,t1")
    monkeypatch.setenv("TPU_WORKER_ID", "1")
    resolver = resolvers.TPUClusterResolver.connect()
    assert resolver.cluster_spec().as_dict() == {"worker": ["t0:8470", "t1:8470"]}
    assert resolver.get_master() == "grpc://t1:8470"


def test_tpu_over_the_network_is_refused():
    with pytest.raises(ValueError, match="tpu='local'"):
        resolvers.TPUClusterResolver("grpc://10.0.0.1:8470")
