"""`python -m mirrax.launch` is `mirrax launch`."""

import sys

from mirrax.launch.launch_command import main

if __name__ == "__main__":
    sys.exit(main())
