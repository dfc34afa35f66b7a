"""`python -m kandle` is the program `kandle`."""

import sys

from kandle.cli import main

if __name__ == "__main__":
    sys.exit(main())
