"""Programs for launchers to start; quick, because they leave JAX alone."""

import itertools
import os
import pathlib
import signal
import subprocess
import sys
import time


def fail():
    print("about to fail")
    if worker() == "1":
        raise KeyError("the cause")
    time.sleep(600)


def hang():
    """Has a child of its own, and ends by no polite signal."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("ready", flush=True)
    time.sleep(600)


def tidy():
    """Ends with 7 when it is told to."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    print("ready", flush=True)
    time.sleep(600)


def tidy_slowly():
    """Ends with 7 when it was told to and there is a file."""
    asked = itertools.chain(["first", "second"], itertools.repeat("another"))
    signal.signal(signal.SIGTERM, lambda *_: print(next(asked), "SIGTERM", flush=True))
    print("ready", flush=True)
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
    sys.exit(7)


def bar():
    """Draws a progress bar, half of it before there is a file."""
    print("started", flush=True)
    print("\rhalf", end="", flush=True)
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
    print("\rfull", flush=True)


def show():
    print(sys.argv[2:], os.environ["OMP_NUM_THREADS"])


def fail_at_first():
    """Fails on worker 1 while a file is missing, which it then makes."""
    mark = pathlib.Path(sys.argv[2])
    if worker() == "1" and not mark.exists():
        mark.touch()
        raise KeyError("the cause")
    print("done", os.environ["JAX_COMPILATION_CACHE_DIR"])


def exit_at_first():
    """Ends the last of four workers with 4 while a file is missing."""
    import mirrax

    strategy = mirrax.MultiWorkerMirroredStrategy()
    mark = pathlib.Path(sys.argv[2])
    if worker() == "3" and not mark.exists():
        mark.touch()
        raise SystemExit(4)
    strategy.reduce("SUM", 1.0, axis=None)


def meet_until_told():
    """Does collectives until there is a file."""
    import mirrax

    strategy = mirrax.MultiWorkerMirroredStrategy()
    print("ready", flush=True)
    while not strategy.reduce("SUM", float(os.path.exists(sys.argv[2])), axis=None):
        time.sleep(0.01)


def start_again_slowly():
    """Fails after a step while a file is missing; then it takes long to start."""
    mark = pathlib.Path(sys.argv[2])
    if mark.exists():
        print("starting", flush=True)
        time.sleep(600)
    mark.touch()
    from mirrax.cluster import step_record

    step_record.report_step(1)
    raise KeyError("the cause")


def evaluate_beside():
    """Fails after step 5, and after a program that restores a checkpoint."""
    from mirrax.cluster import step_record

    step_record.report_step(5)
    subprocess.run([sys.executable, __file__, "restore"], check=True)
    raise KeyError("the cause")


def restore():
    from mirrax.cluster import step_record

    step_record.report_start(0)


def keep_the_best():
    """Saves five steps, and the best model under a number of its own."""
    import mirrax

    run, model = (mirrax.train.Checkpoint(value=1.0) for _ in range(2))
    manager = mirrax.train.CheckpointManager(run, f"{sys.argv[2]}/all")
    for step in range(1, 6):
        manager.save(step)
    mirrax.train.CheckpointManager(model, f"{sys.argv[2]}/best").save()
    raise KeyError("the cause")


def die_in_a_save():
    """Has saved a step, and dies while it saves another, when it is told to end."""
    from mirrax.cluster import step_record

    step_record.report_step(1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: kill_itself())
    print("ready", flush=True)
    time.sleep(600)


def kill_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def need_arguments():
    sys.exit(2)


def ask_for_another_attempt():
    sys.exit(75)


def import_nothing():
    import no_such_module  # noqa: F401


def import_nothing_on_the_second():
    if worker() == "1":
        import_nothing()
    import mirrax

    mirrax.MultiWorkerMirroredStrategy()


def differ():
    """Ends as a worker does whose program is another one."""
    from mirrax.cluster.worker import exit
    from mirrax.errors import ProgramMismatch

    exit.install_exit_code()
    raise ProgramMismatch("All workers must run the same program. Received: two.")


def configure_wrongly():
    import mirrax

    os.environ["TF_CONFIG"] = "{"
    mirrax.MultiWorkerMirroredStrategy()


def use_jax_first():
    import jax

    import mirrax

    jax.devices()
    mirrax.MultiWorkerMirroredStrategy()


def worker():
    return os.environ["TF_CONFIG"].rpartition('"index": ')[2][0]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
