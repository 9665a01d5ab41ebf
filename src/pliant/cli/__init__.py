"""The command line: one file for each command."""

import sys

try:
    from pliant.cli.main import main
except KeyboardInterrupt:
    # Importing torch takes seconds, in which nothing has begun that could be gone on with.
    sys.stderr.write("error: Interrupted.\n")
    raise SystemExit(130) from None

__all__ = ["main"]
