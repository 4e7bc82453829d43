"""`mirrax launch`: starts a script on several workers."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Sequence

from mirrax.cluster.job_options import read_options
from mirrax.launch.supervisor import Supervisor, show_line
from mirrax.launch.worker_plan import LaunchPlan, plan_hosts, plan_local

_DESCRIPTION = """\
Starts SCRIPT on several workers, which find each other through TF_CONFIG. Prints the
traceback of the first worker that fails, and exits with its exit code.

  mirrax launch -n 4 train.py --epochs 3
  mirrax launch -n 2 --devices-per-worker 4 train.py
  mirrax launch --hosts a:7000,b:7000 --host-index 0 train.py     (1 on machine b)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    options = _parse(arguments)
    try:
        _check(options)
        plan = _plan(options)
    except ValueError as error:
        print(f"mirrax launch: {error}", file=sys.stderr)
        return 2
    supervisor = Supervisor(
        plan,
        _command(options),
        devices_per_worker=options.devices_per_worker,
        log_folder=options.log_dir,
        show=show_line,
        grace=options.grace,
    )
    supervisor.forward_signals()
    try:
        result = supervisor.run()
    except OSError as error:
        print(
            "mirrax launch: The coordinator must be able to listen on the first of "
            f"--hosts. Received: {error}. Free the port, correct the address, or set "
            "MIRRAX_BIND to an address of this machine, such as 0.0.0.0.",
            file=sys.stderr,
        )
        return 2
    if result.report:
        print(f"mirrax launch: {result.report}", file=sys.stderr)
    return result.exit_code


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mirrax launch",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-n",
        "--workers",
        type=int,
        default=None,
        help="workers on this machine (default: 2, with --hosts 1)",
    )
    parser.add_argument(
        "--devices-per-worker", type=int, help="CPU devices of each worker"
    )
    parser.add_argument(
        "--log-dir", type=pathlib.Path, help="directory for each worker's output"
    )
    parser.add_argument("--hosts", help="host:port of every machine, with commas")
    parser.add_argument("--host-index", type=int, help="which of them this machine is")
    parser.add_argument(
        "--grace",
        type=float,
        default=30.0,
        help="seconds for workers to exit after SIGINT or SIGTERM (default: 30)",
    )
    parser.add_argument(
        "-m", "--module", action="store_true", help="SCRIPT is the name of a module"
    )
    parser.add_argument("script", help="the program that every worker runs")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    return parser.parse_args(arguments)


def _check(options: argparse.Namespace) -> None:
    read_options()
    if options.devices_per_worker is not None and options.devices_per_worker < 1:
        raise ValueError(
            "--devices-per-worker must be 1 or more. "
            f"Received: {options.devices_per_worker}."
        )
    if options.grace < 0:
        raise ValueError(
            f"--grace must be 0 or more seconds. Received: {options.grace}."
        )
    if not options.module and not os.path.exists(options.script):
        raise ValueError(
            f"The script must be a file. Received: {options.script}, which is not "
            "there. For the name of a module use -m."
        )
    if options.log_dir is not None:
        try:
            options.log_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(
                "--log-dir must be a directory that can be made. Received: "
                f"{options.log_dir}: {error.strerror or error}."
            ) from None


def _plan(options: argparse.Namespace) -> LaunchPlan:
    if (options.hosts is None) != (options.host_index is None):
        raise ValueError(
            "--hosts and --host-index belong together. Received: "
            f"--hosts {options.hosts}, --host-index {options.host_index}."
        )
    if options.hosts is None:
        return plan_local(2 if options.workers is None else options.workers)
    num_workers = 1 if options.workers is None else options.workers
    return plan_hosts(options.hosts.split(","), options.host_index, num_workers)


def _command(options: argparse.Namespace) -> list[str]:
    script = ["-m", options.script] if options.module else [options.script]
    return [sys.executable, *script, *options.args]
