"""Runs `pliant` in child processes that get a signal at a chosen point; prints their exit statuses.

Reads a list of scenarios from standard input: where (`step N`, or `file NAME` for the moment before that file or
directory gets its name), which signal, the arguments, and a file for the child's standard error. The children are
forked, so that the imports are paid for once.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

# What the commands import late is imported here as well, for all children.
from transformers import AutoModel, AutoTokenizer, BertModel, PreTrainedTokenizerFast

from pliant.cli import main
from pliant.rankers.search import Search


def arm(where: str, number: int) -> None:
    kind, _, what = where.partition(" ")
    step, replace = Search._step, os.replace

    def stepping(self: Search, gates: Any, batch: Any) -> float:
        if len(self.losses) == int(what):
            os.kill(os.getpid(), number)
        return step(self, gates, batch)

    def replacing(source: Path, target: Path) -> None:
        if Path(target).name == what:
            os.kill(os.getpid(), number)
        replace(source, target)

    if kind == "step":
        patch.object(Search, "_step", stepping).start()
    else:
        patch.object(os, "replace", replacing).start()


def child(scenario: dict[str, Any]) -> None:
    os.dup2(os.open(scenario["errors"], os.O_WRONLY | os.O_CREAT), 2)
    arm(scenario["where"], scenario["signal"])
    sys.argv = ["pliant", *scenario["arguments"]]
    try:
        main()
    except SystemExit as ended:
        os._exit(int(ended.code or 0))
    finally:
        os._exit(70)


if __name__ == "__main__":
    assert all((AutoModel, AutoTokenizer, BertModel, PreTrainedTokenizerFast))
    statuses: list[int] = []
    for each in json.load(sys.stdin):
        process = os.fork()
        if process == 0:
            child(each)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
    print(json.dumps(statuses))
