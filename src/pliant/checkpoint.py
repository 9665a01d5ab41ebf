"""Opening a model by path or name, with its tokenizer and the pooling that it is meant for."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from torch import nn

from pliant import timm_hub
from pliant.conventions import MANIFEST, Conventions, conventions_of, max_tokens, read_json
from pliant.errors import ArtefactError, InputError, UnsupportedModelError
from pliant.families import describe

DEMO_MODEL = "demo:text"
"""The name of the text encoder that an installed package carries."""

DEMO_VISION = "demo:vision"
"""The name of the image encoder that an installed package carries."""

CHECKPOINT_FILES = (".json", ".txt", ".model", ".safetensors", ".md", ".jinja")
"""Suffixes of the files that belong to a checkpoint."""

DTYPES = ("auto", "bfloat16", "float16", "float32")
"""The precisions that a checkpoint can be opened in; `auto` is its own."""

UNWANTED_FOLDERS = ("onnx", "openvino", "coreml")
"""Folders of a checkpoint that hold it in other formats."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A model as its directory holds it.

    Args:
        name: What the user called it.
        directory: Where its files are.
        model: The model, in evaluation mode.
        inputs: What it reads: `text` or `image`.
        pooling: The pooling that its files name; None where there is none, or none that pliant knows.
        max_tokens: The longest text that it is meant for, in tokens.
        conventions: What else its files say of how it is to be used.
        lacks_pooler: Whether its files have no weights for its pooler, which are random then.
    """

    name: str
    directory: Path
    model: nn.Module
    inputs: Literal["text", "image"]
    pooling: str | None
    max_tokens: int
    conventions: Conventions = field(default_factory=Conventions)
    lacks_pooler: bool = False

    def preprocessor(self) -> Any:
        """Return the checkpoint's own tokenizer, or image processor.

        Raises:
            InputError: The directory has none.
        """
        if timm_hub.made_by_timm(self.model):
            return timm_hub.Transform(self.model)
        from transformers import AutoImageProcessor, AutoTokenizer

        loader = AutoTokenizer if self.inputs == "text" else AutoImageProcessor
        with readable(self.name):
            found = loader.from_pretrained(self.directory, local_files_only=True, trust_remote_code=False)
        # Without any tokenizer file, transformers makes one that knows no word.
        if self.inputs == "text" and len(found) <= len(found.all_special_ids):
            raise InputError(
                f"{self.name} has no tokenizer. Copy its tokenizer's files, such as tokenizer.json, into it."
            )
        return found


def open_checkpoint(name: str, dtype: str = "auto") -> Checkpoint:
    """Open a model: a local directory, `demo:text`, `demo:vision`, a name on the Hugging Face hub, or one of timm's.

    Its weights are in memory only once. In the checkpoint's own precision they are mapped from the file and copied
    when they are changed; in another one they are converted tensor by tensor.

    Args:
        name: The directory or name.
        dtype: One of `DTYPES`.

    Raises:
        InputError: There is no such model, or it can't be read; or the dtype is unknown.
        UnsupportedModelError: transformers has no class for it.
    """
    if dtype not in DTYPES:
        raise InputError(f"Unknown dtype {dtype!r}. Allowed: {', '.join(DTYPES)}.")
    directory = _directory_of(name)
    manifest = read_json(directory / MANIFEST)
    if manifest.get("form") == "cut":
        raise InputError(f"{name} is a standalone cut. Pass the elastic directory or the model that it was cut from.")
    config = read_json(directory / "config.json")
    if not config and (directory / "config.json").is_file():
        raise InputError(f"{directory / 'config.json'} holds no JSON object with settings. Copy the checkpoint again.")
    architecture = None if config or not timm_hub.repository(name) else name
    if architecture or timm_hub.is_timm(config):
        with readable(name):
            # As AutoModel does, without the classifier, unless one was there when the model was saved.
            model = timm_hub.load(directory, manifest.get("classes", 0), architecture)
        model = model if dtype == "auto" else model.to(getattr(torch, dtype))
        inputs, lacks_pooler = "image", False
    else:
        model, lacks_pooler = _load_model(directory, name, manifest.get("class"), dtype)
        inputs = "image" if getattr(model, "main_input_name", "") == "pixel_values" else "text"
    conventions = conventions_of(directory)
    return Checkpoint(
        name=name,
        directory=directory,
        model=model,
        inputs=inputs,
        pooling=conventions.pooling,
        max_tokens=min(max_tokens(directory), describe(model).native_tokens),
        conventions=conventions,
        lacks_pooler=lacks_pooler,
    )


def _directory_of(name: str) -> Path:
    if name == DEMO_MODEL:
        from pliant.demo import model_directory

        return model_directory()
    if name == DEMO_VISION:
        from pliant.demo import vision_directory

        return vision_directory()
    demos = f"{DEMO_MODEL} or {DEMO_VISION}"
    nowhere = f"No model at {name!r}. Pass a checkpoint's directory, a Hugging Face name, {demos}."
    # To pathlib, no name at all is the current directory.
    if not name.strip():
        raise InputError(nowhere)
    path = Path(name)
    try:
        exists = path.exists()
    except OSError as error:
        raise InputError(f"No model at {name!r}: {error.strerror}. Pass a checkpoint's directory.") from error
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise InputError(f"{name} is a directory without config.json. Pass one that save_pretrained wrote.")
        return path
    if exists:
        raise InputError(f"{name} is a file. Pass the directory of a checkpoint.")
    if name.startswith(("/", ".", "~")) or name.count("/") > 1 or ":" in name:
        raise InputError(nowhere)
    return _downloaded(timm_hub.repository(name) or name)


def _downloaded(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled

    wanted = [f"*{suffix}" for suffix in CHECKPOINT_FILES]
    ignored = [f"{folder}/*" for folder in UNWANTED_FOLDERS]
    try:
        return Path(snapshot_download(name, allow_patterns=wanted, ignore_patterns=ignored))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"No model {name!r}: no such directory here, and the Hugging Face hub gave none ({reason}). "
            f"Pass a checkpoint's directory, a name on the hub, {DEMO_MODEL} or {DEMO_VISION}."
        ) from error


# What transformers stumbles over depends on what is wrong with a file; it checks little by itself. A size of zero makes
# it divide by zero or index into nothing, and a quantised model wants packages that may not be there.
_UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    ArithmeticError,
    AssertionError,
    ImportError,
    SafetensorError,
)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turn what transformers raises at files it can't use into one clear error."""
    from huggingface_hub.errors import StrictDataclassError

    try:
        yield
    except (*_UNREADABLE, StrictDataclassError) as error:
        reason = " ".join(str(error).split("\n")[:2]).strip().removesuffix(".") or type(error).__name__
        raise InputError(f"Can't read the model {name}: {reason}. Is the checkpoint complete?") from error


def _load_model(directory: Path, name: str, class_name: str | None, dtype: str) -> tuple[nn.Module, bool]:
    """Return a model of transformers, and whether the weights of its pooler are missing."""
    from transformers import AutoConfig

    with readable(name):
        config = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    layers = getattr(config, "num_hidden_layers", None)
    if isinstance(layers, int) and layers < 1:
        raise InputError(f"{name} has {layers} layers, says its config.json; at least 1 is needed. Correct it.")
    loader = _encoder_class(config) if class_name is None else model_class(class_name)
    if loader is None:
        raise UnsupportedModelError(
            f"{name} is a {config.model_type}: transformers has no encoder class for it. "
            "Pass a model that AutoModel can load, or one tower of a model of two."
        )
    with readable(name):
        # Weights of other shapes are let through here, since our own message about them can be understood.
        model, report = loader.from_pretrained(
            directory,
            config=config,
            local_files_only=True,
            dtype=dtype if dtype == "auto" else getattr(torch, dtype),
            output_loading_info=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
        )
    missing: set[str] = report["missing_keys"]
    # Encoders are often published without the pooler, whose output few use.
    absent = sorted(key for key in missing if "pooler" not in key.split("."))
    _check_shapes(report["mismatched_keys"], name)
    # A model that no family knows is refused for that, whatever else it lacks.
    layers = describe(model).layers
    _check_complete(absent, _further_layers(model, layers, report["unexpected_keys"]), name)
    return model.eval(), len(absent) < len(missing)


def _encoder_class(config: Any) -> Any:
    """Return what loads the encoder of a configuration: AutoModel, or the class that the checkpoint was saved from.

    AutoModel knows no class for some towers, such as SigLIP's of texts; their `config.json` names it.
    """
    import transformers

    if type(config) in transformers.AutoModel._model_mapping:
        return transformers.AutoModel
    names = config.architectures if isinstance(config.architectures, list) else []
    own = getattr(transformers, names[0], None) if names and isinstance(names[0], str) else None
    if not (isinstance(own, type) and issubclass(own, transformers.PreTrainedModel)):
        return None
    return own if own.config_class is type(config) else None


def model_class(name: str | None) -> Any:
    """Return the transformers class of that name.

    Raises:
        ArtefactError: There is none.
    """
    import transformers

    found = getattr(transformers, name, None) if isinstance(name, str) else None
    if not (isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)):
        raise ArtefactError(f"This transformers has no model {name!r}, which {MANIFEST} names. Upgrade transformers.")
    return found


def _check_shapes(mismatched: Collection[tuple[Any, ...]], name: str) -> None:
    """Refuse a checkpoint with weights of other shapes: the model's own would be random."""
    if mismatched:
        key, found, expected = min(mismatched)
        raise InputError(
            f"{name} has weights {list(found)} for {key}, but its config.json says {list(expected)}. "
            "Copy the checkpoint again."
        )


def _check_complete(absent: Sequence[str], further: Sequence[str], name: str) -> None:
    """Refuse a checkpoint that lacks weights, which would be random, or has layers that the model would do without."""
    if absent:
        others = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise InputError(f"{name} has no weights for {absent[0]}{others}. Is it another kind of checkpoint?")
    if further:
        raise InputError(
            f"{name} has weights for {further[0]}, a layer that its config.json doesn't count. "
            "Correct num_hidden_layers, or copy the checkpoint again."
        )


def _further_layers(model: Any, layers: Sequence[str], unexpected: Collection[str]) -> list[str]:
    """Return the names of weights of layers that come after the last of a model's own."""
    stack, _, last = layers[-1].rpartition(".")
    # The weights may be those of a model with a head, which has the encoder under a name.
    name = re.compile(rf"(?:{re.escape(model.base_model_prefix)}\.)?{re.escape(stack)}\.(\d+)\..*")
    matches = [found for key in unexpected if (found := name.fullmatch(key))]
    return sorted(found[0] for found in matches if last.isdigit() and int(found[1]) > int(last))
