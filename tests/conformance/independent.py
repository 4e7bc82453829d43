"""What of the multi-worker answers does not depend on the replicas of each worker.

TensorFlow's answers were recorded with one device for each worker. With more of them
some fields, or whole programs, have another right answer.
"""

from collections.abc import Callable
from typing import Any

Tasks = dict[str, Any]
View = Callable[[Tasks], Any]

DEPENDENT = {
    "03_all_reduce": "It adds up one number for each replica.",
    "05_gather": "It has one row for each replica.",
    "30_v1_optimizer": "It adds up one gradient for each replica.",
    "31_scatter_add": "It adds up one row for each replica.",
    "32_losses_of_version_1": "It has one loss for each replica.",
    "33_autograph": "Each replica takes a branch of its own.",
    "34_extended_on_own_devices": "It adds up one number for each replica.",
    "35_autoshard_hint": "It lists the parts of each replica.",
    "36_data_in_loops": "It lists the parts of each replica.",
    "12_datasets_from_function": "A batch of 6 has no equal parts for 4 replicas.",
}
"""The programs of which nothing can be compared, and why."""


def choose(*names: str) -> View:
    """Returns a view of some fields of every task."""
    return lambda tasks: {
        index: {name: answer[name] for name in names} for index, answer in tasks.items()
    }


def of_all_workers(*names: str) -> View:
    """Returns a view of which elements each step has, on all workers together.

    Which worker gets which of them follows from the number of all replicas.
    """

    def view(tasks: Tasks) -> Any:
        answers = list(tasks.values())
        return {
            name: [
                sorted(row for worker in step for part in worker for row in part)
                for step in zip(*(answer[name] for answer in answers), strict=True)
            ]
            for name in names or answers[0]
        }

    return view


def of_each_worker(tasks: Tasks) -> Any:
    """Returns which elements each worker gets in all, in their order.

    How many of them come in one step follows from the number of all replicas.
    """
    return {
        index: [row for step in answer for part in step for row in part]
        for index, answer in tasks.items()
    }


def _files(tasks: Tasks) -> Any:
    off = of_each_worker({index: answer["OFF"] for index, answer in tasks.items()})
    return off, of_all_workers("DATA")(tasks)


def _both(first: View, second: View) -> View:
    return lambda tasks: (first(tasks), second(tasks))


INDEPENDENT: dict[str, View] = {
    "01_cluster_and_contexts": choose(
        "type", "id", "jobs", "tasks", "resolver", "flags"
    ),
    "06_autoshard_data": of_all_workers(),
    "07_autoshard_data_uneven_batch": of_all_workers(),
    "10_autoshard_file_uneven": of_each_worker,
    "11_autoshard_fewer_files_than_workers": _files,
    "16_chief_and_worker_jobs": _both(
        choose("type", "id", "v", "flags"), of_all_workers("data")
    ),
    "17_v1_experimental_class": _both(
        choose("type", "id", "v"), of_all_workers("data")
    ),
    "18_cluster_with_ps_entry": choose("type", "id"),
}
"""What to compare of each of the other programs."""
