"""Speed and memory beside jaxKAN and pykan: `kandle bench --peers --memory`, options as there."""

import sys

from kandle.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "--peers", "--memory", *sys.argv[1:]]))
