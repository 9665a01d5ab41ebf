"""How fast every size is on this machine, against the untouched model in the same run."""

from pliant.speed.ladder import measure
from pliant.speed.result import Size, Speed, Switching, Timing
from pliant.speed.stored import times_of
from pliant.speed.switching import switching

__all__ = ["Size", "Speed", "Switching", "Timing", "measure", "switching", "times_of"]
