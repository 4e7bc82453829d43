"""The main program of a worker of `mirrax.launch.run`."""

from __future__ import annotations

import os
import pathlib
import pickle
import runpy
import sys

import cloudpickle

from mirrax.cluster.resolvers.tf_config import parse


def main(folder: pathlib.Path) -> None:
    """Calls the function pickled in the folder, and writes its result there."""
    order = pickle.loads((folder / "order").read_bytes())
    sys.path[:] = order["path"]
    if order["main"] is not None:
        # As multiprocessing does: code under `if __name__ == "__main__"` does not run.
        names = runpy.run_path(order["main"], run_name="__mp_main__")
        sys.modules["__main__"].__dict__.update(names)
    try:
        fn, args = pickle.loads((folder / "call").read_bytes())
    except Exception as error:
        raise TypeError(
            "The function and the objects that it uses must load in the workers. "
            f"Received: {error}. Move them into a module; or, in a script, call "
            '`mirrax.launch.run` under `if __name__ == "__main__":`.'
        ) from error
    result = cloudpickle.dumps(fn(*args))
    index = parse(os.environ["TF_CONFIG"]).task_id
    (folder / f"result-{index}").write_bytes(result)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
