"""Rewrites the generated tables of README.md and docs/, each between `<!-- table: NAME -->` and `<!-- end -->`."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "pliant"
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


TABLES: dict[str, Callable[[], str]] = {"layout": layout}


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
