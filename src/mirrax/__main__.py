"""`python -m mirrax` is the command `mirrax`."""

import sys

from mirrax.launch.cli import main

if __name__ == "__main__":
    sys.exit(main())
