"""Checkpoints of timm: directories with `config.json` and `model.safetensors`, as its models on the hub are."""

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pliant.errors import InputError, MissingExtraError

WEIGHTS = "model.safetensors"
"""The file that holds the weights."""

# Such as vit_small_patch14_dinov2.lvd142m: a name of the hub would have a dash or a capital instead.
_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)+(\.\w+)?")


def is_timm(config: Mapping[str, Any]) -> bool:
    """Say whether a `config.json` is one of timm's: it names one architecture, where others list several."""
    return isinstance(config.get("architecture"), str)


def made_by_timm(model: nn.Module) -> bool:
    """Say whether `timm.create_model` made the model, so that timm can save and build it again."""
    return is_timm(getattr(model, "pretrained_cfg", None) or {})


def repository(name: str) -> str | None:
    """Return where on the hub the weights of an architecture are; None if the name isn't one that timm has.

    Args:
        name: Name of an architecture, with or without the tag of its weights.
    """
    if not _NAME.fullmatch(name) or find_spec("timm") is None:
        return None
    import timm

    known = name in timm.list_pretrained() or (timm.is_model(name) and "." not in name)
    found = timm.models.get_pretrained_cfg(name) if known else None
    return found.hf_hub_id if found else None


def build(directory: Path, classes: int | None, architecture: str | None = None) -> nn.Module:
    """Build the model that a directory's `config.json` describes, with random weights.

    Args:
        directory: The directory.
        classes: Outputs of its classifier, 0 for none; None for what the file says.
        architecture: The model's name, where there is no such file.

    Raises:
        MissingExtraError: timm is not installed.
    """
    if find_spec("timm") is None:
        raise MissingExtraError("timm's models", "timm")
    import timm

    made = timm.create_model(architecture or f"local-dir:{directory}", pretrained=False, num_classes=classes)
    return made.eval()


def load(directory: Path, classes: int | None, architecture: str | None = None) -> nn.Module:
    """Load a checkpoint in its own precision.

    Args:
        directory: The directory.
        classes: Outputs of its classifier, 0 for the encoder alone; None for what `config.json` says.
        architecture: The model's name, where there is no `config.json`: timm itself downloads only the weights.

    Raises:
        InputError: It has no weights in safetensors, or lacks some of them, or has some that the model doesn't know.
        MissingExtraError: timm is not installed.
    """
    if not (directory / WEIGHTS).is_file():
        raise InputError(f"{directory} has no {WEIGHTS}. Save the model by timm.models.save_for_hf.")
    model: Any = build(directory, classes, architecture)
    weights = load_file(directory / WEIGHTS)
    missing, unknown = to_precision_of(weights, model).load_state_dict(weights, strict=False)
    named = model.pretrained_cfg.get("classifier") or ()
    classifiers = {named} if isinstance(named, str) else set(named)
    if classes == 0:
        unknown = [name for name in unknown if name.rpartition(".")[0] not in classifiers]
    if missing or unknown:
        raise InputError(
            f"{directory} lacks the weights {sorted(missing)[:3]} and has unknown ones {sorted(unknown)[:3]}: its "
            "config.json describes another model. Copy the checkpoint again."
        )
    return model


def to_precision_of(weights: Mapping[str, Tensor], model: nn.Module) -> nn.Module:
    """Put a model, in place, in the precision that all of some weights have; one for several is left as it is."""
    kinds = {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()}
    return model.to(kinds.pop()) if len(kinds) == 1 else model


def save(model: Any, folder: Path, weights: Mapping[str, Tensor]) -> None:
    """Write a directory that timm can load.

    Args:
        model: A model that `made_by_timm`.
        folder: The directory.
        weights: Its state dict, perhaps with the units in another order.

    Raises:
        InputError: What is known of how the model was made isn't enough to make it again.
    """
    save_config(model, folder)
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / WEIGHTS)


def save_config(model: Any, folder: Path) -> None:
    """Write the `config.json` that timm can make the model again by.

    Raises:
        InputError: What is known of how the model was made isn't enough.
    """
    # The public timm.models.save_for_hf would write the weights too, in the order that they have now.
    from timm.models._hub import save_config_for_hf

    try:
        save_config_for_hf(model, str(folder / "config.json"))
    except (TypeError, ValueError) as error:
        raise InputError(f"timm can't save how this {type(model).__name__} was made: {error}") from error
    with torch.device("meta"):
        again = build(folder, model.num_classes)
    if _shapes(again) != _shapes(model):
        raise InputError(
            f"This {type(model).__name__} can't be saved: timm's record of how it was made gives another model. "
            "Make it by timm.create_model, with arguments that JSON can hold, under timm 1.0.31 or newer."
        )


def _shapes(model: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in model.state_dict().items()}


class Transform:
    """A model's own way from images to its input: resized, cropped and normalised as timm does to evaluate it."""

    def __init__(self, model: nn.Module) -> None:
        """Read the way from the model's configuration."""
        from timm.data.config import resolve_model_data_config

        self._config: dict[str, Any] = resolve_model_data_config(model)
        self.size = dict(zip(("height", "width"), self._config["input_size"][1:], strict=True))
        """Height and width of what the model gets, in pixels."""

    def __call__(
        self, images: Sequence[Any], return_tensors: str = "pt", size: Mapping[str, int] | None = None
    ) -> dict[str, Tensor]:
        """Return the images `[batch, 3, height, width]`, under the name of the model's argument.

        Args:
            images: Images of Pillow, in RGB.
            return_tensors: Only `pt`, as image processors of transformers are asked.
            size: Another height and width than the model's own.
        """
        from timm.data.transforms_factory import create_transform

        wanted = {**self.size, **(size or {})}
        shape = (self._config["input_size"][0], wanted["height"], wanted["width"])
        transform: Any = create_transform(**{**self._config, "input_size": shape}, is_training=False)
        return {"x": torch.stack([transform(image) for image in images])}
