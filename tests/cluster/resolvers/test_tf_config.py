import json

import pytest

from mirrax.cluster.resolvers.tf_config import TFConfig, parse

WORKERS = {"worker": ["a:1", "b:1"]}
FIRST = {"type": "worker", "index": 0}


def config(cluster=WORKERS, task=FIRST, **fields):
    return json.dumps({"cluster": cluster, "task": task, **fields})


def test_nothing_means_one_process():
    assert parse("") == parse("{}") == TFConfig()


def test_fields_are_read():
    text = config(
        {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"], "evaluator": ["d:1"]},
        rpc_layer="grpc",
        environment="google",
    )
    read = parse(text)
    assert read.cluster["ps"] == {0: "c:1"}
    assert (read.task_type, read.task_id) == ("worker", 0)
    assert (read.rpc_layer, read.environment) == ("grpc", "google")


def test_index_may_be_text_as_tensorflow_takes_it():
    assert parse(config(task={"type": "worker", "index": "1"})).task_id == 1


def test_addresses_may_be_numbered():
    numbered = {"1": "b:1", "0": "a:1"}
    found = parse(config({"worker": numbered}))
    assert found == parse(config({"worker": ["a:1", "b:1"]}))


def test_numbers_may_have_gaps():
    numbered = {"3": "b:1", "1": "a:1"}
    read = parse(config({"worker": numbered}, {"type": "worker", "index": 3}))
    assert read.cluster == {"worker": {1: "a:1", 3: "b:1"}}
    with pytest.raises(ValueError, match=r"`task.index` is one of \[1, 3\]"):
        parse(config({"worker": numbered}))


@pytest.mark.parametrize("number", ["a", "-1", "9" * 5000], ids=["a", "-1", "long"])
def test_numbers_must_be_numbers(number):
    with pytest.raises(ValueError, match=r"`cluster.worker` is a list"):
        parse(config({"worker": {number: "a:1"}}))


def test_jobs_of_ones_own_are_kept():
    read = parse(config({**WORKERS, "sampler": ["c:1"]}))
    assert read.cluster["sampler"] == {0: "c:1"}


def test_evaluator_need_not_be_listed():
    assert (
        parse(config(task={"type": "evaluator", "index": 0})).task_type == "evaluator"
    )


def test_ipv6_addresses_are_taken():
    assert parse(config({"worker": ["[::1]:1", "[fe80::1]:2"]})).cluster["worker"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{'cluster': {}}", r"TF_CONFIG is JSON, and this is not.*json\.dumps"),
        ("[" * 100_000, "TF_CONFIG is JSON, and this is not: maximum recursion"),
        ("[1]", r"TF_CONFIG is an object. Received: \[1\]"),
        (
            '{"task": {"type": "worker", "index": 0}}',
            "`cluster` is given, or the process",
        ),
        ('{"clusters": {}}', r"`cluster` is given.*\['clusters'\]"),
        (config(["a:1"]), "`cluster` is an object"),
        (config({"workers": ["a:1"]}), "`cluster` has a worker"),
        (config({"worker": "a:1"}), "`cluster.worker` is a list. Received: 'a:1'"),
        (config({"worker": []}), "`cluster.worker` has an address"),
        (config({"ps": ["a:1"]}), "`cluster` has a worker"),
        (config({"worker": ["a:1", 5]}), r"`cluster.worker\[1\]` is a string. .* 5"),
        (config({"worker": ["a"]}), r"`cluster.worker\[0\]` is 'host:port'.*'a'"),
        (config({"worker": ["a:0"]}), "a port from 1 to 65535.*'a:0'"),
        (config({"worker": ["a:65536"]}), "a port from 1 to 65535.*'a:65536'"),
        (config({"worker": ["a:x"]}), "a port from 1 to 65535.*'a:x'"),
        (config({"worker": ["grpc://a:1"]}), "and nothing else.*'grpc://a:1'"),
        (config({"worker": ["a:1", "a:1"]}), r"differs from cluster.worker\[0\]"),
        (config({"worker": ["a:1"], "ps": ["a:1"]}), r"`cluster.ps\[0\]` differs from"),
        (config({"chief": ["a:1", "b:1"]}), "`cluster.chief` names one process"),
        (config({"chief": ["a:1"], "master": ["b:1"]}), "`cluster.master` names one"),
        (config(task=0), "`task` is an object. Received: 0"),
        (config(task={"index": 0}), "`task.type` is given"),
        (config(task={"type": "worker", "id": 0}), "`task.index` is given"),
        (config(task={"type": 0, "index": 0}), "`task.type` is a string"),
        (
            config(task={"type": "chief", "index": 0}),
            "`task.type` is a job of the clus",
        ),
        (
            config(task={"type": "worker", "index": 2}),
            r"`task.index` is one of \[0, 1\]",
        ),
        (
            config(task={"type": "worker", "index": -1}),
            "`task.index` is a whole number",
        ),
        (
            config(task={"type": "worker", "index": True}),
            "`task.index` is a whole numb",
        ),
        (
            config(task={"type": "worker", "index": 0.5}),
            "`task.index` is a whole number",
        ),
        (config(rpc_layer=1), "`rpc_layer` is a string. Received: 1"),
    ],
    ids=[
        "not_json",
        "too_deep",
        "no_object",
        "no_cluster",
        "misspelt_cluster",
        "cluster_list",
        "misspelt_job",
        "job_text",
        "no_workers",
        "only_ps",
        "address_number",
        "no_port",
        "port_zero",
        "port_too_high",
        "port_text",
        "protocol",
        "repeated_address",
        "address_of_another_job",
        "two_chiefs",
        "chief_and_master",
        "task_number",
        "no_type",
        "no_index",
        "type_number",
        "type_of_no_job",
        "index_too_high",
        "index_negative",
        "index_true",
        "index_fraction",
        "rpc_layer_number",
    ],
)
def test_wrong_field_is_named_with_value_and_fix(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_long_values_are_shortened():
    with pytest.raises(ValueError, match=r"\.\.\. Use") as info:
        parse(config("x" * 1000))
    assert len(str(info.value)) < 400
