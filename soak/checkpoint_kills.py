"""Kills a process at 50 random moments of saving; the newest checkpoint always loads.

python soak/checkpoint_kills.py [how many times]
"""

import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from tests.train.killing import kill_while_saving


def main(times):
    """Kills so many times."""
    moments = random.Random()
    with tempfile.TemporaryDirectory() as directory:
        for count in range(times):
            asynchronous = bool(count % 2)
            number = kill_while_saving(
                pathlib.Path(directory), moments.uniform(0.0, 0.5), asynchronous
            )
            print(f"{count + 1}/{times}: checkpoint {number} is whole", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
