"""Every ranker on all-MiniLM-L6-v2: what each size keeps on text unlike the calibration text, over several seeds.

Calibration: `demo:text` (Python's help topics and source comments). Evaluation: retrieval of docstrings, and, where
Debian's wordnet-base is installed, the fidelity of dictionary glosses. No evaluation text is seen in calibration.

A run is a ranker, with a comma and a preset or a compensation where they aren't its usual ones; with ` + output map`,
it is measured without and with output maps.

Run: python -m benchmarks.text [--seeds 0,1,2] [--runs 'soft-mask + output map;fisher, learned;...'], or several of them
side by side with a --name each, and then python -m benchmarks.text --merge NAME,NAME.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pliant
from benchmarks.record import MAPPED, RESULTS, order, save, wishes
from pliant.checkpoint import DEMO_MODEL, open_checkpoint
from pliant.cli.calibration import CalibrationData
from pliant.compensation import fit_output_maps
from pliant.data import DEMO_TEXTS, TextBatches, sample
from pliant.demo import docstring_retrieval
from pliant.evaluation import measure

SPARSITIES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
MAPPED_RUNS = ("soft-mask", "soft-mask, best", "fisher", "fisher, learned")
RUNS = (*(f"{run}{MAPPED}" for run in MAPPED_RUNS), "soft-mask, measured", "taylor", "magnitude", "random")
WORDNET = Path("/usr/share/wordnet")


def glosses(count: int = 500) -> tuple[str, ...]:
    """Return dictionary glosses, or nothing where the dictionary isn't installed."""
    found: list[str] = []
    for file in sorted(WORDNET.glob("data.*")):
        lines = file.read_text(encoding="utf-8").splitlines()
        found += [line.split("|", 1)[1].strip() for line in lines if "|" in line and not line.startswith("  ")]
    return tuple(sample(found, count, seed=0)) if found else ()


def measured(label: str, seed: int, calibration: CalibrationData) -> Iterator[dict[str, Any]]:
    """Rank and measure, and once more with output maps where they are asked for."""
    checkpoint = open_checkpoint(DEMO_MODEL)
    batches = calibration.batches(checkpoint)
    start = time.perf_counter()
    ranking = pliant.rank(checkpoint.model, batches, seed=seed, pooling=checkpoint.pooling, **wishes(label))
    seconds = time.perf_counter() - start
    elastic = pliant.Elastic(checkpoint.model, ranking)
    tokenizer = checkpoint.preprocessor()

    def batches_of(texts: Sequence[str]) -> TextBatches:
        return TextBatches(texts, tokenizer, 32, 128)

    def run(name: str, seconds: float) -> dict[str, Any]:
        names = {"model": DEMO_MODEL, "ranker": name}
        curves = [
            measure(elastic, SPARSITIES, docstring_retrieval(), (), batches_of, "mean", task_name="docstrings", **names)
        ]
        if other := glosses():
            curves.append(measure(elastic, SPARSITIES, None, other, batches_of, "mean", task_name="glosses", **names))
        story = {key: value for key, value in elastic.ranking.provenance.items() if key != "losses"}
        return {
            "ranker": name,
            "seed": seed,
            "rank_seconds": seconds,
            "ranking": story,
            "curves": [curve.to_json() for curve in curves],
        }

    yield run(label.removesuffix(MAPPED), seconds)
    if label.endswith(MAPPED):
        start = time.perf_counter()
        fit_output_maps(elastic, batches)
        yield run(label, seconds + time.perf_counter() - start)


def merge(names: list[str], into: str) -> Path:
    """Join the runs of several result files, in the order of `RUNS`."""
    parts = [json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in names]
    runs = sorted((run for part in parts for run in part["runs"]), key=lambda run: order(RUNS).index(run["ranker"]))
    commits = {part["made_with"]["commit"] for part in parts}
    assert len(commits) == 1, f"The parts are of different commits: {commits}"
    used = {calibration["seed"]: calibration for part in parts for calibration in part["calibration"]}
    path = save(into, {**parts[0], "calibration": list(used.values()), "runs": runs})
    for name in names:
        (RESULTS / f"{name}.json").unlink()
    return path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--merge", default="", help="result files to join, with commas")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--runs", default=";".join(RUNS))
    parser.add_argument("--name", default="text_minilm")
    options = parser.parse_args()
    if options.merge:
        print(merge(options.merge.split(","), options.name))
        return
    runs: list[dict[str, Any]] = []
    used: list[dict[str, Any]] = []
    for seed in map(int, options.seeds.split(",")):
        calibration = CalibrationData(DEMO_TEXTS, seed=seed)
        used.append(asdict(calibration))
        for label in options.runs.split(";"):
            for run in measured(label, seed, calibration):
                runs.append(run)
                points = [round(point["cosine"], 4) for point in run["curves"][0]["points"]]
                print(run["ranker"], seed, round(run["rank_seconds"]), points, flush=True)
                path = save(options.name, {"benchmark": "text", "calibration": used, "runs": runs})
    print(path)


if __name__ == "__main__":
    main()
