"""`tf.distribute.experimental.PreemptionCheckpointHandler` and its parts."""

import signal
import sys

import pytest

from mirrax import tf

experimental = tf.distribute.experimental


def make(directory, **config):
    total = tf.Variable(0)
    handler = experimental.PreemptionCheckpointHandler(
        tf.distribute.cluster_resolver.TFConfigClusterResolver(),
        tf.train.Checkpoint(total=total),
        directory,
        experimental.TerminationConfig(**config),
    )
    return total, handler


def train(handler, total, num_steps, preempted_in=None):
    """Trains; returns the exit code of a preemption, None without one."""
    try:
        while handler.total_run_calls < num_steps:
            step = handler.total_run_calls
            handler.run(lambda: total.assign_add(1))
            if step == preempted_in:
                signal.raise_signal(signal.SIGTERM)
    except SystemExit as ended:
        return ended.code
    return None


def test_preempted_program_continues_where_it_saved(tmp_path):
    total, handler = make(tmp_path)
    assert train(handler, total, 8, preempted_in=4) == 75
    assert tf.train.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-5")
    total, handler = make(tmp_path)
    assert (int(total), handler.total_run_calls) == (5, 5)
    assert train(handler, total, 8) is None
    assert (int(total), handler.total_run_calls) == (8, 8)
    handler._watcher.close()


def test_config_says_how_to_notice_save_and_exit(tmp_path):
    saved = []
    signs = iter([False, False, True])
    total, handler = make(
        tmp_path,
        termination_watcher_fn=lambda: next(signs),
        save_fn=lambda: saved.append(int(total)),
        exit_fn=lambda: sys.exit(42),
    )
    assert train(handler, total, 8) == 42
    assert saved == [2]


def test_scope_saves_at_its_end(tmp_path):
    _, handler = make(tmp_path)
    with pytest.raises(SystemExit), handler.watch_preemption_scope():
        signal.raise_signal(signal.SIGTERM)
    assert tf.train.latest_checkpoint(tmp_path) is not None


def test_calls_that_may_save_are_counted(tmp_path):
    _, handler = make(tmp_path)
    for _ in range(3):
        handler.save_checkpoint_if_preempted()
    assert handler.total_run_calls == 3
    handler._watcher.close()


def test_checkpoint_needs_a_directory():
    with pytest.raises(ValueError, match="`checkpoint_dir` must be given together"):
        make(None)


def test_watcher_knows_the_sign():
    watcher = experimental.PreemptionWatcher()
    assert watcher.preemption_message is None
    signal.raise_signal(signal.SIGTERM)
    assert watcher.preemption_message == "SIGTERM"
    watcher.block_until_worker_exit()
    watcher.close()
