import json
import socket

import pytest

from mirrax.launch import doctor


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
    assert "TF_CONFIG: not set, so this process trains alone" in output


def test_free_ports_are_well(set_cluster, capsys):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
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
