"""How a worker that is preempted tells the others."""

import concurrent.futures
import signal

import pytest

import mirrax
from mirrax.train import preemption
from tests.devices.fresh import run_fresh


def test_sigterm_is_told_before_the_program_handles_it(make_cluster, monkeypatch):
    first, second = make_cluster(2).start()
    monkeypatch.setattr(preemption, "current_job", lambda: first)
    watcher = mirrax.train.PreemptionWatcher()
    try:
        # As while the main thread waits inside JAX: Python calls no handler then.
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.raise_signal(signal.SIGTERM)
        # All agree on the step that has begun: nobody has to do another one.
        second.heartbeat.wait_until(lambda: second.stop_agreement._last_step)
        assert second.stop_agreement._last_step == 1
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            other = pool.submit(second.stop_agreement.finish_step)
            assert watcher.should_stop()
            assert other.result(timeout=240)
    finally:
        watcher.close()
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.slow
def test_forked_process_can_be_terminated():
    output = run_fresh(
        """
        import os, signal, time, mirrax

        watcher = mirrax.train.PreemptionWatcher()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, b"ready")
            time.sleep(600)
        os.read(reader, 5)
        os.kill(child, signal.SIGTERM)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(watcher.should_stop())
        """
    )
    assert output.split() == ["-15", "False"]
