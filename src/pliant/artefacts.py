"""Directories that pliant writes: elastic ones, which are a checkpoint and its ranking, and standalone cuts."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pliant import timm_hub
from pliant.anatomy import Anatomy
from pliant.checkpoint import CHECKPOINT_FILES, Checkpoint, model_class, open_checkpoint, readable
from pliant.conventions import MANIFEST, module_folders, read_json
from pliant.errors import ArtefactError, InputError
from pliant.families import describe
from pliant.files import digest, new_directory
from pliant.output_maps import OutputMap
from pliant.ranking import FORMAT, Ranking
from pliant.replacements import Mapped
from pliant.surgery import standalone, view
from pliant.times import TIMES

RANKING = "pliant.safetensors"
"""The file that holds the ranking."""

Form = Literal["elastic", "cut"]


def save_elastic(directory: str | Path, model: nn.Module, weights: Mapping[str, Tensor], ranking: Ranking) -> None:
    """Write an elastic directory from a model in memory, of transformers or made by `timm.create_model`.

    Args:
        directory: A directory that doesn't exist yet, or is empty.
        model: The model, for its configuration.
        weights: Its state dict, units in the order that the ranking was made in.
        ranking: Its ranking.

    Raises:
        InputError: Neither library made the model, or the directory exists or can't be written.
    """
    with new_directory(directory) as folder:
        _save_pretrained(model, folder, weights, stock_names=True)
        _finish_elastic(folder, model, ranking)


def write_elastic(directory: str | Path, checkpoint: Checkpoint, ranking: Ranking) -> None:
    """Write an elastic directory: the checkpoint's own files, untouched, and the ranking beside them.

    Args:
        directory: A directory that doesn't exist yet, or is empty.
        checkpoint: The checkpoint that was ranked.
        ranking: Its ranking.

    Raises:
        InputError: The directory exists or can't be written.
    """
    with new_directory(directory) as folder:
        _copy_checkpoint(checkpoint, folder, weights=True)
        _finish_elastic(folder, checkpoint.model, ranking)


def write_cut(directory: str | Path, cut: nn.Module, widths: tuple[int, ...], checkpoint: Checkpoint) -> None:
    """Write a standalone cut: its own weights, the checkpoint's tokenizer, and the widths to rebuild it by.

    Args:
        directory: A directory that doesn't exist yet, or is empty.
        cut: The standalone model, as `Elastic.cut` gives it.
        widths: Units kept at each site.
        checkpoint: The checkpoint that it was cut from.

    Raises:
        InputError: Neither library made the model, or the directory exists or can't be written.
    """
    with new_directory(directory) as folder:
        _copy_checkpoint(checkpoint, folder, weights=False)
        if timm_hub.made_by_timm(cut):
            # The configuration, of the full model, is among the files that were copied.
            save_file(cut.state_dict(), folder / timm_hub.WEIGHTS)
        else:
            _save_pretrained(cut, folder, cut.state_dict(), stock_names=False)
        mapped = any(isinstance(module, Mapped) for module in cut.modules())
        more = {"pooling": checkpoint.pooling, "widths": list(widths), "output_map": mapped}
        _write_manifest(folder, "cut", cut, more)


def load_elastic(directory: str | Path) -> tuple[Checkpoint, Ranking]:
    """Read the checkpoint and the ranking of an elastic directory.

    Raises:
        InputError: There is no such directory.
        ArtefactError: It is no elastic directory, is damaged, or comes from a newer pliant.
    """
    folder = Path(directory)
    _checked_manifest(folder, "elastic")
    return open_checkpoint(str(folder)), Ranking.load(folder / RANKING)


def load_cut(directory: str | Path) -> nn.Module:
    """Load a standalone cut that `pliant cut` wrote.

    Args:
        directory: The directory.

    Returns:
        The model, in evaluation mode.

    Raises:
        InputError: There is no such directory.
        ArtefactError: It is no cut, is damaged, or comes from a newer pliant.
    """
    folder = Path(directory)
    manifest = _checked_manifest(folder, "cut")
    weights: dict[str, Tensor] = {}
    with readable(str(folder)):
        for name in sorted(manifest["files"]):
            if name.endswith(".safetensors"):
                weights |= load_file(folder / name)
    full = _built(folder, manifest, weights)
    anatomy = describe(full)
    consumers = [full.get_parameter(f"{site.consumer}.weight") for site in anatomy.sites]
    biases = [torch.zeros(len(weight), dtype=weight.dtype) for weight in consumers]
    widths = _checked_widths(manifest.get("widths"), anatomy, folder)
    own = standalone(view(full, anatomy, widths, biases, _empty_map(anatomy) if manifest.get("output_map") else None))
    with readable(str(folder)):
        _assign_(own, weights, folder)
    return own.eval().requires_grad_(False)


def _empty_map(anatomy: Anatomy) -> OutputMap:
    """Return a map that does nothing, for weights to come."""
    assert anatomy.output is not None
    width = anatomy.output.width
    return OutputMap(torch.zeros(width, width), torch.zeros(width))


def _built(folder: Path, manifest: Mapping[str, Any], weights: Mapping[str, Tensor]) -> nn.Module:
    """Return the full model that a cut was made from, with random weights in the precision of the cut's."""
    from transformers import AutoConfig

    with readable(str(folder)):
        if timm_hub.is_timm(read_json(folder / "config.json")):
            return timm_hub.to_precision_of(weights, timm_hub.build(folder, manifest.get("classes")))
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    # Made in its precision: cast afterwards, it would be there twice, and buffers that stay in float32 would not.
    return model_class(manifest.get("class"))._from_config(config, dtype=config.dtype or torch.float32)


def _checked_widths(widths: Any, anatomy: Anatomy, folder: Path) -> tuple[int, ...]:
    units = [site.units for site in anatomy.sites]
    whole = isinstance(widths, list) and all(type(width) is int for width in widths)
    if not whole or not anatomy.allows(tuple(widths)):
        raise ArtefactError(
            f"{folder / MANIFEST} names the widths {widths!r:.80}, but the model's sites have {units} units. "
            "Make the cut again."
        )
    return tuple(widths)


def _assign_(model: nn.Module, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Give a model its weights, of which those that it shares between two places are there only once."""
    from transformers import PreTrainedModel

    missing, unknown = model.load_state_dict(weights, strict=False, assign=True)
    absent = set(missing)
    if isinstance(model, PreTrainedModel):
        # Takes the names that it ties out of the set.
        model.tie_weights(missing_keys=absent)
    if absent or unknown:
        raise ArtefactError(
            f"{folder} lacks the weights {sorted(absent)} and has unknown ones {sorted(unknown)}. Make the cut again."
        )


def _copy_checkpoint(checkpoint: Checkpoint, folder: Path, weights: bool) -> None:
    _copy_files(checkpoint.directory, folder, weights)
    if timm_hub.made_by_timm(checkpoint.model) and not (folder / "config.json").is_file():
        timm_hub.save_config(checkpoint.model, folder)


def _copy_files(source: Path, target: Path, weights: bool) -> None:
    # Other folders may hold anything: exports, training checkpoints, elastic directories made from this very model.
    folders = module_folders(source)
    for file in sorted(source.rglob("*")):
        path = file.relative_to(source)
        wanted = file.suffix in CHECKPOINT_FILES and (len(path.parts) == 1 or path.parts[0] in folders)
        holds_weights = file.suffix == ".safetensors" or file.name.endswith(".safetensors.index.json")
        ours = file.name in (MANIFEST, RANKING, TIMES)
        if file.is_file() and wanted and not ours and (weights or not holds_weights):
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target / path)


def _save_pretrained(model: nn.Module, folder: Path, weights: Mapping[str, Tensor], stock_names: bool) -> None:
    """Save weights under the hub's names for them, or under the model's own, which `load_cut` reads."""
    from transformers import PreTrainedModel

    if timm_hub.made_by_timm(model):
        timm_hub.save(model, folder, weights)
        return
    if not isinstance(model, PreTrainedModel):
        raise InputError(
            f"{type(model).__name__} is no transformers model, nor made by timm.create_model, so its configuration "
            "can't be saved."
        )
    model.save_pretrained(folder, state_dict=dict(weights), save_original_format=stock_names)


def _finish_elastic(folder: Path, model: nn.Module, ranking: Ranking) -> None:
    ranking.save(folder / RANKING)
    story = {key: value for key, value in ranking.provenance.items() if key != "losses"}
    _write_manifest(folder, "elastic", model, {"pooling": ranking.provenance.get("pooling"), "ranking": story})


def _write_manifest(folder: Path, form: Form, model: nn.Module, more: Mapping[str, Any]) -> None:
    files = {str(file.relative_to(folder)): digest(file) for file in sorted(folder.rglob("*")) if file.is_file()}
    about = {"format": FORMAT, "form": form, "class": type(model).__name__, **more, "files": files}
    if timm_hub.made_by_timm(model):
        about["classes"] = model.num_classes
    about["sha256"] = _checksum(about)
    (folder / MANIFEST).write_text(json.dumps(about, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _checksum(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all that a manifest says, but for its own checksum."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _checked_manifest(folder: Path, form: Form) -> dict[str, Any]:
    """Return the manifest of a directory of ours whose files are all as they were written."""
    if not folder.is_dir():
        raise InputError(f"No directory at {folder}. Pass one that pliant wrote.")
    if not (folder / MANIFEST).is_file():
        raise ArtefactError(f"{folder} has no {MANIFEST}, so pliant didn't write it. Make one with `pliant rank`.")
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest.get("files"), dict) or not isinstance(manifest.get("format"), int):
        raise ArtefactError(f"{folder / MANIFEST} is damaged. Copy the directory again, or make it anew.")
    if manifest["format"] > FORMAT:
        raise ArtefactError(
            f"{folder} has format {manifest['format']}; this pliant reads up to {FORMAT}. "
            "Upgrade: pip install -U pliant."
        )
    if manifest.get("sha256") != _checksum(manifest):
        raise ArtefactError(f"{folder / MANIFEST} was altered or damaged. Copy the directory again, or make it anew.")
    if manifest.get("form") != form:
        raise ArtefactError(f"{folder} is of form {manifest.get('form')!r}, not {form!r}. Pass another directory.")
    for name, expected in manifest["files"].items():
        if not (folder / name).is_file():
            raise ArtefactError(f"{folder / name} is missing. Copy the directory again, or make it anew.")
        if _digest(folder / name) != expected:
            raise ArtefactError(f"{folder / name} was altered or damaged. Copy the directory again, or make it anew.")
    return manifest


def _digest(path: Path) -> str:
    try:
        return digest(path)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}. Check its permissions.") from error
