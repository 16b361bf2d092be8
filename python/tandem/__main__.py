"""`python -m tandem ...` and the command `tandem`: the program of the wheel, in place of this process."""

from __future__ import annotations

import os
import sys

from tandem.server import program


def main() -> None:
    try:
        path = program()
    except FileNotFoundError as error:
        sys.exit(f"tandem: {error}")
    os.execv(path, ["tandem", *sys.argv[1:]])


if __name__ == "__main__":
    main()
