from mirrax.devices.peers import NoPeers, exchange_json


def test_who_is_alone_is_the_only_worker_and_the_chief():
    alone = NoPeers()
    assert (alone.num_workers, alone.worker_index, alone.is_chief) == (1, 0, True)
    assert [worker.name for worker in alone.workers] == ["worker 0"]
    assert alone.exchange("anything", b"mine") == [b"mine"]
    with alone.guard("run"):
        pass


def test_values_come_back_as_json_makes_them():
    value = {"sizes": (1, 2), "none": None}
    assert exchange_json(NoPeers(), "t", value) == [{"sizes": [1, 2], "none": None}]
