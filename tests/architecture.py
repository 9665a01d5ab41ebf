"""Rules of the source that a parser can check: who may import whom, sizes, types, names, what is forbidden."""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

GROUND = "errors files batches pooling"
PLAN = f"budget times ranking cost anatomy output_maps size_norms {GROUND}"
RUNTIME = f"compensation machine elastic artefacts checkpoint conventions timm_hub surgery rest_bias families {PLAN}"

# A module or subpackage, and what it may import, lazily or not, besides its own subpackage. The longest key that fits
# a module counts. A new module needs one line here.
ALLOWED = {
    "errors": "",
    "files": "errors",
    "batches": "errors",
    "pooling": "batches errors",
    "anatomy": "errors",
    "families": "anatomy errors",
    "cost": f"anatomy {GROUND}",
    "output_maps": "errors",
    "size_norms": "errors",
    "ranking": f"output_maps size_norms anatomy {GROUND}",
    "times": "errors files",
    "machine": "batches errors",
    "budget": PLAN,
    "gates": f"anatomy {GROUND}",
    "objectives": GROUND,
    "rankers": f"gates objectives families output_maps size_norms ranking cost anatomy {GROUND}",
    "replacements": "output_maps errors",
    "surgery": f"replacements {PLAN}",
    "rest_bias": f"surgery {PLAN}",
    "timm_hub": "errors",
    "conventions": GROUND,
    "checkpoint": f"conventions timm_hub families demo {PLAN}",
    "artefacts": f"timm_hub replacements checkpoint conventions surgery families {PLAN}",
    "elastic": RUNTIME,
    "compensation": RUNTIME,
    "prose": "",
    "demo": f"prose evaluation.retrieval {GROUND}",
    "tables": "errors files",
    "loaders": GROUND,
    "intact": f"loaders {GROUND}",
    "data": f"demo loaders tables {GROUND}",
    "datasets": f"data tables evaluation.retrieval {GROUND}",
    "speed": f"data {RUNTIME}",
    "evaluation": f"speed {RUNTIME}",
    "export": RUNTIME,
    "serve": f"data {RUNTIME}",
    "cli": f"serve evaluation speed export rankers gates objectives datasets data intact demo {RUNTIME}",
    "pliant": f"rankers {RUNTIME}",
}

# Neither may reach the other, not even through third modules: they meet only in Ranking.
SEPARATE = (
    ("rankers", "gates", "objectives"),
    (
        "surgery",
        "replacements",
        "rest_bias",
        "elastic",
        "compensation",
        "checkpoint",
        "conventions",
        "timm_hub",
        "artefacts",
        "export",
        "serve",
    ),
)

# Third-party packages that a module may import at its top. All others wait inside the function that needs them.
EAGER = {"torch", "numpy", "safetensors", "typer", "rich"}

UNSAFE = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
CATCH_ALL = re.compile(r"_*(utils?|helpers?|commons?|misc|base_.*)")
MODULE_LINES, FUNCTION_LINES, PUBLIC_NAMES, RESULTS = 300, 50, 12, 2


@dataclass(frozen=True)
class Import:
    target: str
    line: int
    eager: bool
    runs: bool


@dataclass(frozen=True)
class Module:
    """One source file; `name` is dotted, without the leading `pliant.`, and `pliant` for the package itself."""

    name: str
    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def package(self) -> str:
        return self.name if self.path.endswith("__init__.py") else self.name.rpartition(".")[0]


Package = Mapping[str, Module]
Rule = Callable[[Package], Iterator[str]]


def read(sources: Mapping[str, str]) -> Package:
    modules = {}
    for path, text in sources.items():
        name = path.removesuffix(".py").removesuffix("__init__").strip("/").replace("/", ".") or "pliant"
        modules[name] = Module(name, path, text)
    return modules


def statements(node: ast.AST, eager: bool = True, runs: bool = True) -> Iterator[tuple[ast.stmt, tuple[bool, bool]]]:
    """Yield each import below `node`, with whether it runs with the module, and whether it runs at all."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, (eager and runs, runs)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            yield from statements(ast.Module(child.body, []), eager, False)
            yield from statements(ast.Module(child.orelse, []), eager, runs)
        else:
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from statements(child, eager and not inside, runs)


def targets(statement: ast.stmt, module: Module, package: Package) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        source = statement.module or ""
        if statement.level:
            parents = [] if module.package == "pliant" else module.package.split(".")
            parents = parents[: len(parents) - statement.level + 1]
            source = ".".join(["pliant", *parents, *filter(None, [statement.module])])
        for alias in statement.names:
            whole = f"{source}.{alias.name}"
            yield whole if whole.removeprefix("pliant.") in package else source


def imports(module: Module, package: Package) -> Iterator[Import]:
    for statement, (eager, runs) in statements(module.tree):
        for target in targets(statement, module, package):
            yield Import(target, statement.lineno, eager, runs)


def internal(module: Module, package: Package) -> Iterator[tuple[str, Import]]:
    for found in imports(module, package):
        if found.target.split(".")[0] == "pliant":
            yield found.target.removeprefix("pliant."), found


def within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def imports_are_allowed(package: Package) -> Iterator[str]:
    for module in package.values():
        key = max((key for key in ALLOWED if within(module.name, key)), key=len, default=None)
        if key is None:
            yield f"{module.path}: {module.name} has no line in ALLOWED"
            continue
        for target, found in internal(module, package):
            if not any(within(target, part) for part in [key, *ALLOWED[key].split()]):
                yield f"{module.path}:{found.line}: {module.name} may not import {target}"


def graph(package: Package, eager: bool) -> dict[str, set[str]]:
    """Who imports whom; importing a module of another subpackage runs that subpackage's `__init__` too."""
    edges: dict[str, set[str]] = {}
    for module in package.values():
        found = {target for target, found in internal(module, package) if (found.eager if eager else found.runs)}
        parents = {target.rpartition(".")[0] for target in found}
        foreign = {parent for parent in parents if parent in package and not within(module.name, parent)}
        edges[module.name] = (found | foreign) - {module.name}
    return edges


def chain(edges: Mapping[str, set[str]], start: str, is_end: Callable[[str], bool]) -> list[str] | None:
    """Return a shortest path from `start` to a module that `is_end` accepts, or None."""
    paths, seen = [[start]], set[str]()
    while paths:
        path = paths.pop(0)
        for following in sorted(edges.get(path[-1], ())):
            if is_end(following):
                return [*path, following]
            if following not in seen:
                seen.add(following)
                paths.append([*path, following])
    return None


def worlds_stay_apart(package: Package) -> Iterator[str]:
    edges = graph(package, eager=False)
    for start in package:
        for world, other in (SEPARATE, SEPARATE[::-1]):
            if any(within(start, part) for part in world):
                path = chain(edges, start, lambda name, other=other: any(within(name, part) for part in other))
                if path:
                    yield f"{package[start].path}: reaches the other world: {' → '.join(path)}"


def no_circles(package: Package) -> Iterator[str]:
    edges = graph(package, eager=True)
    for start in package:
        if path := chain(edges, start, start.__eq__):
            yield f"{package[start].path}: circle {' → '.join(path)}"


def heavy_packages_are_lazy(package: Package) -> Iterator[str]:
    light = EAGER | {"pliant"} | sys.stdlib_module_names
    for module in package.values():
        for found in imports(module, package):
            if found.eager and found.target.split(".")[0] not in light:
                yield f"{module.path}:{found.line}: import {found.target} inside the function that needs it"


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(module.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    has_docstring = ast.get_docstring(function) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def sizes_are_small(package: Package) -> Iterator[str]:
    for module in package.values():
        lines = len(module.text.splitlines())
        if lines > MODULE_LINES:
            yield f"{module.path}: {lines} lines, {MODULE_LINES} at most"
        for function in functions(module):
            if length(function) > FUNCTION_LINES:
                yield f"{module.path}:{function.lineno}: {function.name} has {length(function)} lines"


def signatures_are_typed(package: Package) -> Iterator[str]:
    for module in package.values():
        for function in functions(module):
            given = function.args
            named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            bare = [name.arg for name in named if name and not name.annotation and name.arg not in ("self", "cls")]
            if bare or function.returns is None:
                what = ", ".join(bare) or "its result"
                yield f"{module.path}:{function.lineno}: {function.name} has no type for {what}"


def results_are_named(package: Package) -> Iterator[str]:
    """Nobody knows what the third of a tuple is; what autograd calls must return one for each input."""
    for module in package.values():
        for function in functions(module):
            kind = function.returns
            if not isinstance(kind, ast.Subscript) or ast.unparse(kind.value) != "tuple" or function.name == "backward":
                continue
            parts = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
            if len(parts) > RESULTS:
                yield f"{module.path}:{function.lineno}: {function.name} returns {len(parts)} things without names"


def differences_stay_in_families(package: Package) -> Iterator[str]:
    """No other code asks what kind of model it has; which library made it decides only how it is saved."""
    for module in package.values():
        calls = (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))
        for call in calls if not within(module.name, "families") else ():
            if re.match(r"hasattr\(|isinstance\(.*(?<!PreTrained)Model\b", ast.unparse(call)):
                yield f"{module.path}:{call.lineno}: {ast.unparse(call)} is for a family to ask"


def public_names_are_few(package: Package) -> Iterator[str]:
    for module in (module for module in package.values() if module.path.endswith("__init__.py")):
        for node in module.tree.body:
            if isinstance(node, ast.Assign) and "'__all__'" in ast.dump(node.targets[0]):
                names = ast.literal_eval(node.value)
                if len(names) > PUBLIC_NAMES:
                    yield f"{module.path}:{node.lineno}: {len(names)} public names, {PUBLIC_NAMES} at most"


def names_say_something(package: Package) -> Iterator[str]:
    for module in package.values():
        if any(CATCH_ALL.fullmatch(part) for part in module.name.split(".")):
            yield f"{module.path}: a catch-all; name it after the one thing that it does"


def nothing_forbidden(package: Package) -> Iterator[str]:
    for module in package.values():
        for found in imports(module, package):
            if found.target.split(".")[0] in UNSAFE:
                yield f"{module.path}:{found.line}: {found.target} runs code from the file that it reads"
        for node in ast.walk(module.tree):
            if message := forbidden(node):
                yield f"{module.path}:{getattr(node, 'lineno', 0)}: {message}"


def forbidden(node: ast.AST) -> str | None:
    text = (
        ast.unparse(node) if isinstance(node, (ast.Attribute, ast.ImportFrom, ast.keyword, ast.ExceptHandler)) else ""
    )
    if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
        return "import names, not *"
    if text == "torch.load" or re.match(r"from torch import .*\bload\b", text):
        return "torch.load unpickles; save tensors as safetensors"
    if text == "allow_pickle=True":
        return "allow_pickle unpickles; save tensors as safetensors"
    if re.match(r"except(:| \(?(.*, )?(Base)?Exception\b)", text):
        return "a broad except; name the errors that are expected"
    return None


RULES: tuple[Rule, ...] = (
    imports_are_allowed,
    worlds_stay_apart,
    no_circles,
    heavy_packages_are_lazy,
    sizes_are_small,
    signatures_are_typed,
    results_are_named,
    differences_stay_in_families,
    public_names_are_few,
    names_say_something,
    nothing_forbidden,
)
