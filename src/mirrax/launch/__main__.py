"""`python -m mirrax.launch` is `mirrax launch`."""

import sys

from mirrax.launch.command import main

if __name__ == "__main__":
    sys.exit(main())
