import json
import socket

import pytest

from mirrax.cluster.net.messages import Message, encode
from mirrax.launch import doctor
from tests.free_ports import find_free_ports


@pytest.fixture
def set_cluster(monkeypatch):
    def set_addresses(*addresses):
        task = {"type": "worker", "index": 0}
        value = {"cluster": {"worker": list(addresses)}, "task": task}
        monkeypatch.setenv("TF_CONFIG", json.dumps(value))

    return set_addresses


def test_report_of_a_machine_alone(monkeypatch, capsys):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert doctor.main([]) == 0
    output = capsys.readouterr().out
    assert "ok   jax: " in output
    assert "ok   devices: 8 x CPU" in output
    assert "TF_CONFIG: not set, nor JAX_PROCESS_ID" in output
    assert "SLURM_JOB_ID, JOB_COMPLETION_INDEX, so this process trains alone" in output


def test_launcher_and_its_first_worker_are_shown(monkeypatch, capsys):
    (port,) = find_free_ports()
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", f"127.0.0.1:{port}")
    assert doctor.main([]) == 0
    output = capsys.readouterr().out
    assert "ok   MPI (PMI_RANK): 2 workers, this is worker 1" in output
    assert f"ok   worker 0 (127.0.0.1:{port}): 127.0.0.1 answers" in output
    assert "host-of-rank" not in output


def test_task_that_would_train_alone_is_a_failure(monkeypatch, capsys):
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_NTASKS", "2")
    assert doctor.main([]) == 1
    assert "FAIL Slurm (SLURM_JOB_ID): Slurm has 2 tasks" in capsys.readouterr().out


def test_free_ports_are_well(set_cluster, capsys):
    (port,) = find_free_ports()
    set_cluster(f"127.0.0.1:{port}", f"127.0.0.2:{port}")
    assert doctor.main([]) == 0
    output = capsys.readouterr().out
    assert "TF_CONFIG: 2 workers, this is worker 0" in output
    assert f"worker 1 (127.0.0.2:{port}): 127.0.0.2 answers; the port is free" in output


def test_unknown_name_and_foreign_port_are_found(set_cluster, capsys):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        set_cluster(f"127.0.0.1:{sock.getsockname()[1]}", "no.such.host.invalid:1")
        assert doctor.main(["--timeout", "0.3"]) == 1
    output = capsys.readouterr().out
    assert "something else listens on this port" in output
    assert "the name 'no.such.host.invalid' is unknown here" in output


def test_wrong_configuration_is_shown(monkeypatch, capsys):
    monkeypatch.setenv("TF_CONFIG", "{")
    assert doctor.main([]) == 1
    assert "FAIL TF_CONFIG: TF_CONFIG is JSON" in capsys.readouterr().out


def test_answer_of_a_stranger_is_shown_escaped():
    first, second = socket.socketpair()
    with first, second:
        second.sendall(encode(Message("challenge", {"protocol": "\x1b[2J"})))
        assert doctor._identify(first, "127.0.0.1") == (
            True,
            r"127.0.0.1: a Mirrax job listens (protocol '\x1b[2J')",
        )
