"""The command line: one file for each command."""

from pliant.cli.main import main

__all__ = ["main"]
