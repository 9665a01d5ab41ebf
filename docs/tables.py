"""Rewrites the generated tables of README.md and docs/, each between `<!-- table: NAME -->` and `<!-- end -->`."""

import ast
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "pliant"
RESULTS = ROOT / "benchmarks" / "results"
MARKED = re.compile(r"(?P<open><!-- table: (?P<name>[\w-]+) -->\n).*?(?P<close><!-- end -->)", re.DOTALL)


def layout() -> str:
    """List every module with the first line of its docstring."""
    rows = ["| module | what it is |", "|---|---|"]
    for path in sorted(SOURCE.rglob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        if docstring:
            summary = docstring.splitlines()[0].replace("|", "\\|")
            rows.append(f"| `{path.relative_to(SOURCE).as_posix()}` | {summary} |")
    return "\n".join(rows)


def _result(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _rows(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def _points(ranker: str, task: str, result: dict[str, Any]) -> dict[float, list[dict[str, Any]]]:
    """Return the points of all seeds of one ranker on one task, by sparsity."""
    points: dict[float, list[dict[str, Any]]] = {}
    for run in result["runs"]:
        for curve in run["curves"]:
            if run["ranker"] == ranker and curve["task"] == task:
                for point in curve["points"]:
                    # Before format 2, a curve had one number of the full model's.
                    full = curve["full_ndcg"] if "full_ndcg" in curve else curve["full"].get("ndcg_slim_queries")
                    points.setdefault(point["sparsity"], []).append({**point, "full_ndcg": full})
    return points


def _text() -> dict[str, Any]:
    """Return the runs on MiniLM."""
    renamed = {"soft-mask, fixed rest": "soft-mask, measured"}
    runs = _joined("text_minilm", "text_best", "text_learned", "text_baselines")
    return {"runs": [{**run, "ranker": renamed.get(run["ranker"], run["ranker"])} for run in runs]}


def _joined(*names: str) -> list[dict[str, Any]]:
    """Return the runs of several files; of a run that several have, those of the first."""
    joined: list[dict[str, Any]] = []
    for name in names:
        measured = {run["ranker"] for run in joined}
        joined += [run for run in _result(name)["runs"] if run["ranker"] not in measured]
    return joined


def kept() -> str:
    """What each budget of the demo model keeps, mean of the seeds."""
    result = _text()
    head = [
        "sparsity",
        "parameters",
        "MACs",
        "cosine to the full model",
        "nDCG@10, slim queries",
        "of the full model's",
    ]
    rows = []
    for sparsity, points in _points("soft-mask + output map", "docstrings", result).items():
        ndcg, full = (mean(point[key] for point in points) for key in ("ndcg_slim_queries", "full_ndcg"))
        parameters, macs = (mean(point[key] for point in points) for key in ("parameters", "macs"))
        cosine = mean(point["cosine"] for point in points)
        sizes = [f"{sparsity:.0%}", f"{parameters / 1e6:.1f} M", f"{macs / 1e9:.2f} G"]
        rows.append([*sizes, f"{cosine:.3f}", f"{ndcg:.3f}", f"{ndcg / full:.1%}"])
    return _rows(head, rows)


def _against(task: str, key: str) -> str:
    result = _text()
    rankers = list(dict.fromkeys(run["ranker"] for run in result["runs"]))
    curves = {ranker: _points(ranker, task, result) for ranker in rankers}
    sparsities = list(curves[rankers[0]])
    rows = [
        [ranker, *(f"{mean(point[key] for point in curves[ranker][sparsity]):.3f}" for sparsity in sparsities)]
        for ranker in rankers
    ]
    return _rows(["ranker", *(f"{sparsity:.0%}" for sparsity in sparsities)], rows)


def _vision(measure: str) -> str:
    """One measure of the image model by ranker and size, mean of the seeds."""
    runs = _joined("vision_vits14", "vision_baselines")
    values: dict[str, dict[float, list[float]]] = {}
    for run in runs:
        for point in run["points"]:
            values.setdefault(run["ranker"], {}).setdefault(point["sparsity"], []).append(point[measure])
    sparsities = [point["sparsity"] for point in runs[0]["points"]]
    rows = [[ranker, *(f"{mean(found[size]):.3f}" for size in sparsities)] for ranker, found in values.items()]
    return _rows(["ranker", *(f"{size:.0%}" for size in sparsities)], rows)


def _percent(value: float, low: float, high: float) -> str:
    return f"{100 * value:.1f} ± {50 * (high - low):.1f}"


def _top1(points: Iterable[dict[str, Any]]) -> str:
    """Mean of the seeds in percent, with half the width of the interval over the test images."""
    found = [(point["top1"], *point["intervals"]["top1"]) for point in points]
    return _percent(*(mean(numbers) for numbers in zip(*found, strict=True)))


def _signed(interval: list[float], scale: float = 100, digits: int = 1) -> str:
    value, low, high = (f"{scale * number:+.{digits}f}" for number in interval)
    return f"{value} ({low} to {high})"


def _classifiers(cell: Callable[[Iterable[dict[str, Any]]], str]) -> str:
    """One measure of the classifier by ranker and size."""
    result = _result("classifiers")
    rows = []
    for label, of in result["differences"].items():
        sizes = zip(*(run["points"] for run in result["runs"] if run["ranker"] == label), strict=True)
        rows.append([label, str(of["seeds"]), *map(cell, sizes)])
    return _rows(["ranker", "seeds", *(f"{size:.0%}" for size in result["sparsities"])], rows)


def classifiers_lost() -> str:
    """What cuts lose of the full model's top-1, image by image: the method, its parts, and the strongest baseline."""
    result = _result("classifiers")
    found = {label: of for label, of in result["differences"].items() if label.startswith(("soft-mask", "fisher"))}
    rows = [
        [f"{size:.0%}", *(_signed(of["against_full"][i]) for of in found.values())]
        for i, size in enumerate(result["sparsities"])
    ]
    return _rows(["sparsity", *found], rows)


def classifiers_ahead() -> str:
    """Where a ranker is ahead of the default by more than the interval over the test images."""
    result = _result("classifiers")
    rows = [
        [label, measure, f"{size:.0%}", _signed(gap, scale, digits)]
        for label, of in result["differences"].items()
        for measure, scale, digits in (("top1", 100, 2), ("cosine", 1, 4))
        for size, gap in zip(result["sparsities"], of.get("against_default", {}).get(measure, ()), strict=False)
        if gap[1] > 0
    ]
    return _rows(["ranker", "measure", "sparsity", "ahead of the default by"], rows) if rows else "Nowhere."


def classifiers_sizes() -> str:
    """The larger classifier cut to the smaller one's size, beside both."""

    def row(name: str, parameters: float, macs: float, top1: str, ahead: str = "") -> list[str]:
        return [name, f"{parameters / 1e3:.0f} k", f"{macs / 1e6:.2f} M", top1, ahead]

    result = _result("classifiers")
    rows = [
        row(f"the {size} one, full", model["parameters"], model["macs"], _percent(*model["top1"]))
        for size, model in result["models"].items()
    ]
    for label, of in result["differences"].items():
        for what, ahead in of["against_small"].items() if label.startswith(("soft-mask", "fisher")) else ():
            points = [run["as_small_in"][what] for run in result["runs"] if run["ranker"] == label]
            parameters, macs = (mean(point[key] for point in points) for key in ("parameters", "macs"))
            name = f"cut to the small one's {what.replace('macs', 'MACs')}: {label}"
            rows.append(row(name, parameters, macs, _top1(points), _signed(ahead)))
    return _rows(["model", "parameters", "MACs", "top-1, %", "ahead of the small one"], rows)


def speed() -> str:
    """Speed-up of views and cuts against the untouched model, beside what their MACs promise."""
    rows = [
        [
            row["model"],
            f"{row['sparsity']:.0%}",
            f"{row['speedup']:.2f}×",
            f"{row['macs_ratio']:.2f}×",
            f"{row['share']:.0%}",
        ]
        for row in _result("speed_minilm_cpu")["rows"]
    ]
    return _rows(["model", "sparsity", "speed-up", "ratio of MACs", "share of it"], rows)


def seeds() -> str:
    """How long each ranker took, and how far apart its seeds are."""
    result = _text()
    rankers = list(dict.fromkeys(run["ranker"] for run in result["runs"]))
    rows = []
    for ranker in rankers:
        minutes = mean(run["rank_seconds"] for run in result["runs"] if run["ranker"] == ranker) / 60
        spread = max(
            max(point["cosine"] for point in points) - min(point["cosine"] for point in points)
            for points in _points(ranker, "docstrings", result).values()
        )
        count = len({run["seed"] for run in result["runs"] if run["ranker"] == ranker})
        rows.append([ranker, str(count), f"{minutes:.1f}", f"{spread:.3f}" if count > 1 else "–"])
    return _rows(["ranker", "seeds", "minutes", "seeds differ in cosine by at most"], rows)


def switching() -> str:
    """What it takes to change size, and what live views weigh."""
    result = _result("speed_minilm_cpu")
    times, memory = result["switching"], result["memory"]
    cached, built = ([times[f"{kind}_{label}_ms"] for label in ("p50", "p99")] for kind in ("cached", "built"))
    rows = [
        ["to a size used before", *(f"{1000 * milliseconds:.1f} µs" for milliseconds in cached)],
        ["to a new size", *(f"{milliseconds:.1f} ms" for milliseconds in built)],
    ]
    weight = f"{memory['views']} live views take {memory['share']:.2%} of the model's memory beside it."
    return _rows(["switching", "median", "99th percentile"], rows) + f"\n\n{weight}"


def families() -> str:
    """Every family: its models, what can leave their layers, and what a user should know."""
    from pliant.families import FAMILIES

    rows = []
    for family in FAMILIES:
        heads = [layout.heads for layout in family.layouts if layout.heads]
        neurons = [layout.neurons for layout in family.layouts if layout.neurons]
        units = [kind for kind, parts in (("heads", heads), ("neurons", neurons)) if parts]
        whole = [
            sublayer
            for sublayer, parts in (("attention", heads), ("MLP", neurons))
            if any(part.sublayer for part in parts)
        ]
        notes = dict.fromkeys(note for layout in family.layouts for note in layout.notes)
        cut = [" and ".join(units), " and ".join(whole) or "–"]
        rows.append([family.name, family.members, *cut, family.pooling, " ".join(notes)])
    return _rows(["family", "models", "units", "can go as a whole", "pooling", "worth knowing"], rows)


def members() -> str:
    """Every family and its models."""
    from pliant.families import FAMILIES

    return _rows(["family", "models"], [[family.name, family.members] for family in FAMILIES])


def zoo() -> str:
    """Every named encoder with its sizes."""
    from pliant.cli.zoo import COLUMNS, cells, described

    rows = []
    for encoder, sizes in described():
        # A table with holes would be taken for what the encoders are.
        if isinstance(sizes, str):
            raise SystemExit(sizes)
        rows.append([f"`{encoder.name}`", *(cell.replace("\N{NO-BREAK SPACE}", " ") for cell in cells(encoder, sizes))])
    return _rows(["encoder", *COLUMNS], rows)


TABLES: dict[str, Callable[[], str]] = {
    "layout": layout,
    "kept": kept,
    "families": families,
    "members": members,
    "zoo": zoo,
    "cosine-docstrings": lambda: _against("docstrings", "cosine"),
    "cosine-glosses": lambda: _against("glosses", "cosine"),
    "ndcg-docstrings": lambda: _against("docstrings", "ndcg_slim_queries"),
    "vision-class": lambda: _vision("class_cosine"),
    "vision-patches": lambda: _vision("patch_cosine"),
    "vision-saliency": lambda: _vision("saliency_iou"),
    "classifiers-top1": lambda: _classifiers(_top1),
    "classifiers-cosine": lambda: _classifiers(lambda points: f"{mean(point['cosine'] for point in points):.3f}"),
    "classifiers-agreement": lambda: _classifiers(lambda points: f"{mean(point['agreement'] for point in points):.1%}"),
    "classifiers-lost": classifiers_lost,
    "classifiers-ahead": classifiers_ahead,
    "classifiers-sizes": classifiers_sizes,
    "seeds": seeds,
    "speed": speed,
    "switching": switching,
}


def rewritten(text: str) -> str:
    """Return `text` with every marked table made anew; a name that `TABLES` lacks raises `KeyError`."""
    return MARKED.sub(lambda mark: f"{mark['open']}{TABLES[mark['name']]()}\n{mark['close']}", text)


def main() -> None:
    """Rewrite the files whose tables changed."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        if (fresh := rewritten(text)) != text:
            path.write_text(fresh, encoding="utf-8")


if __name__ == "__main__":
    main()
