"""Lets PyPI's torchvision be imported beside a CPU build of torch, as on a machine without a GPU.

The two come from different builds, so torchvision's compiled operators don't load, and its import fails at the first
of them that it looks up. No image model needs these operators: they only have to be declared. `install.py` puts this
module into a virtual environment. It does nothing until torchvision is imported, and nothing if that works by itself.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

DECLARATIONS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
# Operators are declared for as long as their library lives.
_kept: list[object] = []


def declare() -> None:
    """Declare the operators that the import looks up."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for declaration in DECLARATIONS:
        library.define(declaration)
    _kept.append(library)


class Finder:
    """Finds torchvision where it is, and gives its import a second try."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of torchvision itself, and nothing for any other module."""
        spec = PathFinder.find_spec(name) if name == "torchvision" else None
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_twice(module: ModuleType) -> None:
                try:
                    run(module)
                except RuntimeError as error:
                    if "torchvision::nms" not in str(error):
                        raise
                    for loaded in [key for key in sys.modules if key.startswith("torchvision.")]:
                        del sys.modules[loaded]
                    declare()
                    run(module)

            spec.loader.exec_module = run_twice
        return spec


sys.meta_path.insert(0, Finder())
