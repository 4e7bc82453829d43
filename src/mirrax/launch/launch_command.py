"""`mirrax launch`: starts a script on several workers."""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Sequence

from mirrax.cluster.job_options import EXIT_CODE, read_options
from mirrax.cluster.membership import split_address
from mirrax.cluster.net.listener import is_loopback
from mirrax.cluster.worker.streams import drop_unwritable_output
from mirrax.errors import ConfigurationError, JobError
from mirrax.launch.cli import CommandParser
from mirrax.launch.console import CONSOLE
from mirrax.launch.follower import Follower
from mirrax.launch.leader import Leader
from mirrax.launch.machines import Alone, Launchers, Machines
from mirrax.launch.restarts import run_job
from mirrax.launch.supervisor import received_signals
from mirrax.launch.worker_plan import plan_hosts

_DESCRIPTION = """\
Starts SCRIPT on several workers, which find each other through TF_CONFIG. Prints the
traceback of the first worker that fails, and exits with its exit code.

  mirrax launch -n 4 train.py --epochs 3
  mirrax launch -n 2 --devices-per-worker 4 train.py
  mirrax launch --hosts a:7000,b:7000 --host-index 0 train.py     (1 on machine b)
  mirrax launch -n 4 --max-restarts 3 train.py
"""

_MINIMA = {"workers": 1, "devices_per_worker": 1, "grace": 0, "max_restarts": 0}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    options = _parse(arguments)
    try:
        return _run(options)
    finally:
        # The exit code is that of the job, whatever became of its output.
        drop_unwritable_output()


def _run(options: argparse.Namespace) -> int:
    try:
        _check(options)
        launchers = _find_launchers(options)
        with (
            received_signals() as signals,
            tempfile.TemporaryDirectory(prefix="mirrax-launch-") as folder,
        ):
            result = run_job(
                launchers,
                _command(options),
                pathlib.Path(folder),
                max_restarts=options.max_restarts,
                environment=_environment(options),
                show=CONSOLE.show_line,
                signals=signals,
                devices_per_worker=options.devices_per_worker,
                log_folder=options.log_dir,
                show_bar=CONSOLE.show_bar,
                grace=options.grace,
            )
    except JobError as error:
        return _complain(error, EXIT_CODE)
    except RuntimeError as error:
        return _complain(error, 2)
    except OSError as error:
        return _complain(_explain(error), 1)
    except KeyboardInterrupt:
        return _complain("SIGINT came before a worker was started.", 130)
    if result.report:
        return _complain(result.report, result.exit_code)
    return result.exit_code


def _complain(what: object, exit_code: int) -> int:
    with contextlib.suppress(OSError):
        print(f"mirrax launch: {what}", file=sys.stderr)
    return exit_code


def _explain(error: OSError) -> str:
    return (
        "The launcher must be able to start processes, and to write to "
        f"{tempfile.gettempdir()}. Received: {error}. Free memory or disk space, or "
        "set TMPDIR to another folder."
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandParser(
        prog="mirrax launch",
        usage="mirrax launch [options] SCRIPT [arguments of the script]",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-n",
        "--workers",
        type=int,
        metavar="N",
        help="workers on this machine (default: 2, with --hosts 1)",
    )
    parser.add_argument(
        "--devices-per-worker", type=int, metavar="N", help="CPU devices of each worker"
    )
    parser.add_argument(
        "--log-dir",
        type=pathlib.Path,
        metavar="DIRECTORY",
        help="directory for each worker's output",
    )
    parser.add_argument(
        "--hosts", metavar="HOST:PORT,...", help="every machine, with commas"
    )
    parser.add_argument(
        "--host-index",
        type=int,
        metavar="I",
        help="which of them this machine is, from 0",
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="time for workers to exit after SIGINT or SIGTERM (default: 30)",
    )
    parser.add_argument(
        "--max-restarts",
        type=int,
        default=0,
        metavar="N",
        help="how often to start the job again after a failure (default: 0)",
    )
    parser.add_argument(
        "--elastic",
        metavar="MIN:MAX",
        help="restart with the machines that are left, at least MIN and at most MAX",
    )
    parser.add_argument(
        "--requeue-code",
        type=int,
        metavar="CODE",
        help="exit code of workers that were asked to end and have saved (default: 75)",
    )
    parser.add_argument(
        "-m", "--module", action="store_true", help="SCRIPT is the name of a module"
    )
    # One argument, because the parser would drop `--` between two.
    parser.add_argument(
        "command",
        metavar="SCRIPT",
        nargs=argparse.REMAINDER,
        help="the program that every worker runs, and its arguments",
    )
    options = parser.parse_args(arguments)
    if options.command[:1] == ["--"]:
        del options.command[0]
    if not options.command:
        parser.error("Name the script that every worker runs")
    if options.workers is None:
        options.workers = 2 if options.hosts is None else 1
    return options


def _check(options: argparse.Namespace) -> None:
    for flag, minimum in _MINIMA.items():
        value = getattr(options, flag)
        if value is not None and not value >= minimum:
            name = f"--{flag.replace('_', '-')}"
            raise ConfigurationError(
                f"{name} must be {minimum} or more. Received: {value}."
            )
    script: str = options.command[0]
    if not options.module and not os.path.exists(script):
        raise ConfigurationError(
            f"The script must be a file. Received: {script!r}, which is not there. For "
            "the name of a module use -m."
        )
    if options.log_dir is not None:
        try:
            options.log_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                "--log-dir must be a directory that can be made. Received: "
                f"{options.log_dir}: {error.strerror or error}."
            ) from None


def _find_launchers(options: argparse.Namespace) -> Launchers:
    _check_hosts(options)
    if options.hosts is None:
        return Alone(options.workers)
    hosts = tuple(options.hosts.split(","))
    # Raises if one of them is wrong.
    plan_hosts(hosts, options.host_index, options.workers)
    settings = read_options(_environment(options))
    is_exposed = not all(is_loopback(split_address(host)[0]) for host in hosts)
    if len(hosts) > 1 and is_exposed and not settings.secret:
        raise ConfigurationError(
            "Several machines need a secret, so that no other process can join the "
            "job. Received: no MIRRAX_SECRET. Set it to the same long random text on "
            "all of them; `openssl rand -hex 16` makes one."
        )
    elastic = _parse_elastic(options.elastic, len(hosts))
    machines = Machines(hosts, options.workers, *elastic, settings)
    if options.host_index > 0:
        return Follower(machines, options.host_index, CONSOLE.show_line)
    grace = max(options.grace, settings.failure_grace)
    return Leader(machines, CONSOLE.show_line, grace)


def _check_hosts(options: argparse.Namespace) -> None:
    if (options.hosts is None) != (options.host_index is None):
        raise ConfigurationError(
            "--hosts and --host-index belong together. Received: "
            f"--hosts {options.hosts}, --host-index {options.host_index}."
        )
    if options.elastic is not None and not (options.hosts and options.max_restarts):
        raise ConfigurationError(
            "--elastic counts machines, so it needs --hosts, and --max-restarts. "
            f"Received: --hosts {options.hosts}, --max-restarts {options.max_restarts}."
            " On one machine --max-restarts alone starts all workers again."
        )


def _parse_elastic(text: str | None, num_hosts: int) -> tuple[int, int]:
    if text is None:
        return num_hosts, num_hosts
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= num_hosts:
        raise ConfigurationError(
            f"--elastic must be MIN:MAX, numbers of machines from 1 to {num_hosts}. "
            f"Received: {text}."
        )
    return int(match[1]), int(match[2])


def _environment(options: argparse.Namespace) -> dict[str, str]:
    if options.requeue_code is None:
        return dict(os.environ)
    return {**os.environ, "MIRRAX_REQUEUE_CODE": str(options.requeue_code)}


def _command(options: argparse.Namespace) -> list[str]:
    return [sys.executable, *(["-m"] if options.module else []), *options.command]
