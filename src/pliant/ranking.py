"""The ranking: one score for each unit, what stands in for removed units, and the model it belongs to."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from pliant.anatomy import Anatomy, Site
from pliant.errors import ArtefactError, InputError
from pliant.files import replacing
from pliant.output_maps import FIELDS as MAP_FIELDS
from pliant.output_maps import OutputMaps
from pliant.size_norms import FIELDS as NORM_FIELDS
from pliant.size_norms import SizeNorms

FORMAT = 4
"""Version of the format that `Ranking.save` writes; 1 had no sample of weights, 2 no output maps, 3 no size norms."""

Rest = Literal["mean", "zero"]

_Part = TypeVar("_Part")

_MAPS, _NORMS = "output_maps", "norms"

_LINES = 8
"""About how many rows of each consumer, and columns of each producer, a fingerprint looks at."""

# Bfloat16 rounds by up to 2⁻⁸ of a value, float16 by less, but below 2⁻¹⁴ by up to 2⁻²⁵; both may have rounded.
_RELATIVE, _ABSOLUTE = 2.0**-7, 2.0**-23


@dataclass(frozen=True, eq=False)
class Ranking:
    """Scores and rest values of one model's units: all that a ranker leaves behind.

    Args:
        scores: One score for each unit, float32 `[units]` in anatomy order; higher stays longer.
        rest: For each site, what its consumer reads in place of removed units, float32 `[units × width]`.
        rest_kind: Whether the rest values are mean activations or zeros.
        fingerprint: Identifies the model; see `fingerprint`.
        provenance: How the ranking was made; anything that JSON can hold.
        sample: For each site, some weights of every unit, as `sampled` takes them: the model is known by them in
            another precision too. Empty in a file of format 1.
        output_maps: What corrects the outputs of cuts; None where nothing does.
        norms: What corrects the norms at each size; None where nothing does.
    """

    scores: Tensor
    rest: tuple[Tensor, ...]
    rest_kind: Rest
    fingerprint: str
    provenance: Mapping[str, Any]
    sample: tuple[Tensor, ...] = ()
    output_maps: OutputMaps | None = None
    norms: SizeNorms | None = None

    def __post_init__(self) -> None:
        """Refuse scores that can't be put in order."""
        if not isinstance(self.scores, Tensor):
            raise InputError(
                f"Scores are a tensor, float32 [units], not a {type(self.scores).__name__}. Pass torch.tensor(...)."
            )
        if not isinstance(self.rest, tuple) or not all(isinstance(rest, Tensor) for rest in self.rest):
            raise InputError(f"Rest values are a tuple with a tensor for each site, not {self.rest!r:.60}.")
        if self.rest_kind not in get_args(Rest):
            raise InputError(f"Unknown rest {self.rest_kind!r}. Allowed: {', '.join(get_args(Rest))}.")
        if not isinstance(self.sample, tuple) or not all(isinstance(sample, Tensor) for sample in self.sample):
            raise InputError(f"The sample is a tuple with a tensor for each site, not {self.sample!r:.60}.")
        if self.output_maps is not None and not isinstance(self.output_maps, OutputMaps):
            raise InputError(f"The output maps are OutputMaps or None, not {self.output_maps!r:.60}.")
        if self.norms is not None and not isinstance(self.norms, SizeNorms):
            raise InputError(f"The norms are SizeNorms or None, not {self.norms!r:.60}.")
        object.__setattr__(self, "scores", self.scores.detach())
        if self.scores.dtype != torch.float32 or self.scores.dim() != 1:
            raise InputError(f"Scores are float32 [units]; these are {self.scores.dtype} {list(self.scores.shape)}.")
        if not torch.isfinite(self.scores).all() or not all(torch.isfinite(rest).all() for rest in self.rest):
            raise InputError("Scores and rest values must be finite; some are NaN or infinite. Rank the model again.")

    def check(self, model: nn.Module, anatomy: Anatomy) -> None:
        """Raise `ArtefactError` unless this ranking was made for `model`."""
        widths = tuple(site.units * site.width for site in anatomy.sites)
        fits = len(self.scores) == anatomy.units and tuple(len(rest) for rest in self.rest) == widths
        if not fits or not (fingerprint(model, anatomy) == self.fingerprint or self._knows(model, anatomy)):
            raise ArtefactError(
                f"This ranking ({len(self.scores)} units, {self.fingerprint[:12]}) was made for another model than "
                f"this {type(model).__name__} ({anatomy.units} units, {fingerprint(model, anatomy)[:12]}), or the "
                "model was changed or already taken over by an Elastic. Load the model afresh, or rank this one."
            )
        check_output_maps(self.output_maps, anatomy)
        check_norms(self.norms, anatomy)

    def _knows(self, model: nn.Module, anatomy: Anatomy) -> bool:
        """Say whether `model` has the sampled weights in another precision."""
        present = sampled(model, anatomy)
        return len(present) == len(self.sample) and all(map(_same_but_rounded, self.sample, present))

    def save(self, path: str | Path) -> None:
        """Write the ranking to one safetensors file, whose header holds the rest as JSON.

        Args:
            path: The file; an existing one is replaced in one step.

        Raises:
            InputError: The file can't be written.
        """
        tensors = {"scores": self.scores.contiguous()}
        tensors |= {f"rest.{index}": rest.contiguous() for index, rest in enumerate(self.rest)}
        tensors |= {f"sample.{index}": sample.contiguous() for index, sample in enumerate(self.sample)}
        for prefix, found, fields in ((_MAPS, self.output_maps, MAP_FIELDS), (_NORMS, self.norms, NORM_FIELDS)):
            if found is not None:
                tensors |= {f"{prefix}.{name}": getattr(found, name).contiguous() for name in fields}
        about = {"format": FORMAT, "rest_kind": self.rest_kind, "fingerprint": self.fingerprint}
        about |= {"provenance": dict(self.provenance)}
        header = json.dumps(about, sort_keys=True)
        with replacing(path) as temporary:
            save_file(tensors, temporary, metadata={"pliant": header, "sha256": checksum(header, tensors)})

    @classmethod
    def load(cls, path: str | Path) -> "Ranking":
        """Read a ranking that `save` wrote.

        Raises:
            InputError: There is no such file.
            ArtefactError: The file is no ranking, is damaged, or comes from a newer pliant.
        """
        if not Path(path).is_file():
            raise InputError(f"No ranking at {path}. Pass a file that Ranking.save wrote.")
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        except (SafetensorError, OSError) as error:
            raise ArtefactError(f"{path} is no whole safetensors file ({error}). Copy or make it again.") from error
        about = _read_header(path, metadata)
        if metadata.get("sha256") != checksum(metadata["pliant"], tensors):
            raise ArtefactError(f"{path} doesn't match its checksum: it was altered or damaged. Copy or make it again.")
        try:
            return cls(
                scores=tensors["scores"],
                rest=_numbered(tensors, "rest"),
                rest_kind=about["rest_kind"],
                fingerprint=about["fingerprint"],
                provenance=about["provenance"],
                sample=_numbered(tensors, "sample"),
                output_maps=_made(OutputMaps, tensors, _MAPS, MAP_FIELDS),
                norms=_made(SizeNorms, tensors, _NORMS, NORM_FIELDS),
            )
        except KeyError as error:
            raise ArtefactError(f"{path} has no {error}. Copy or make it again.") from error


def _numbered(tensors: Mapping[str, Tensor], name: str) -> tuple[Tensor, ...]:
    """Return `name.0`, `name.1` and so on, as many as there are."""
    count = sum(key.startswith(f"{name}.") for key in tensors)
    return tuple(tensors[f"{name}.{index}"] for index in range(count))


def _made(
    kind: Callable[..., _Part], tensors: Mapping[str, Tensor], prefix: str, fields: Sequence[str]
) -> _Part | None:
    """Return what is made of the tensors with a prefix, in the order of `fields`, if there are any."""
    if not any(name.startswith(f"{prefix}.") for name in tensors):
        return None
    return kind(*(tensors[f"{prefix}.{name}"] for name in fields))


def check_output_maps(maps: OutputMaps | None, anatomy: Anatomy) -> None:
    """Raise `ArtefactError` unless a model of that anatomy can have these maps, or there are none."""
    if maps is None:
        return
    has_place = anatomy.output is not None and anatomy.output.width == maps.width
    if not has_place or not all(anatomy.allows(widths) for widths in maps.places):
        raise ArtefactError(
            f"These output maps, of width {maps.width} for cuts of {maps.widths.shape[1]} sites, were made for another "
            f"model than this one of family {anatomy.family}. Fit them again by pliant.compensation.fit_output_maps."
        )


def check_norms(norms: SizeNorms | None, anatomy: Anatomy) -> None:
    """Raise `ArtefactError` unless a model of that anatomy can have these corrections, or there are none."""
    if norms is None:
        return
    count, width = norms.values.shape[1], norms.values.shape[3]
    if (count, width) != (len(anatomy.norms), anatomy.sites[0].outputs):
        raise ArtefactError(
            f"These size norms, for {count} norms of width {width}, were made for another model than this one of "
            f"family {anatomy.family}. Rank it again."
        )


def _read_header(path: str | Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    if "pliant" not in metadata:
        raise ArtefactError(f"{path} is a safetensors file, but no ranking. Pass a file that Ranking.save wrote.")
    try:
        about = json.loads(metadata["pliant"])
    except json.JSONDecodeError as error:
        raise ArtefactError(f"{path} has a damaged header ({error}). Copy or make it again.") from error
    if not isinstance(about, dict) or not isinstance(about.get("format"), int):
        raise ArtefactError(f"{path} has a damaged header (no format). Copy or make it again.")
    if about["format"] > FORMAT:
        raise ArtefactError(
            f"{path} has format {about['format']}; this pliant reads up to {FORMAT}. Upgrade: pip install -U pliant."
        )
    return about


def checksum(header: str, tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of a header and of tensors with their names, types and shapes.

    Args:
        header: Any text.
        tensors: Tensors of any shape, on any device.
    """
    total = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        total.update(f"{name} {tensors[name].dtype} {list(tensors[name].shape)}".encode())
        total.update(tensors[name].cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def fingerprint(model: nn.Module, anatomy: Anatomy) -> str:
    """Return a hash of the model's sites and of some of their weights.

    It is the same for one checkpoint in float32 and bfloat16, and with or without a head, and differs as soon as
    units are reordered: of each consumer it takes whole rows, of each producer whole columns, so that every unit is
    in it. A float16 load of a checkpoint has another one, as rounding twice isn't rounding once: for it there is
    `Ranking.sample`.

    Args:
        model: The model, on any device but meta.
        anatomy: Its anatomy.

    Raises:
        InputError: The model has no weights yet, or made them under inference mode.
    """
    _refuse_unusable(model)
    total = hashlib.sha256()
    for site in anatomy.sites:
        total.update(f"{site.kind} {site.units} {site.width} {site.outputs} {len(site.producers)}".encode())
        weights = [model.get_submodule(site.consumer).get_parameter("weight")]
        weights += [model.get_submodule(producer.module).get_parameter("weight").T for producer in site.producers]
        for weight in weights:
            lines = weight.detach()[:: max(1, len(weight) // _LINES)].to(device="cpu", dtype=torch.bfloat16)
            total.update(lines.contiguous().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def sampled(model: nn.Module, anatomy: Anatomy) -> tuple[Tensor, ...]:
    """Return for each site some weights of every unit, `[weights, units]`, on the CPU and in the model's precision.

    Args:
        model: The model, on any device but meta.
        anatomy: Its anatomy.
    """
    return tuple(_site_sample(model, site) for site in anatomy.sites)


def _site_sample(model: nn.Module, site: Site) -> Tensor:
    consumer = model.get_submodule(site.consumer).get_parameter("weight").detach()
    lines = [consumer[site.outputs // 3, :: site.width], consumer[2 * site.outputs // 3, :: site.width]]
    for producer in site.producers:
        weight = model.get_submodule(producer.module).get_parameter("weight").detach()
        column = weight[:: producer.rows, producer.inputs // 3]
        lines += column.to(consumer).reshape(producer.parts, site.units).unbind()
    return torch.stack(lines).cpu()


def _same_but_rounded(one: Tensor, other: Tensor) -> bool:
    """Say whether weights in two precisions are those of one checkpoint."""
    # In one precision they would have the same fingerprint.
    if one.shape != other.shape or one.dtype == other.dtype:
        return False
    return torch.allclose(one.double(), other.double(), rtol=_RELATIVE, atol=_ABSOLUTE)


def _refuse_unusable(model: nn.Module) -> None:
    """Refuse weights that can be neither read nor put in another order."""
    if any(parameter.is_meta for parameter in model.parameters()):
        raise InputError(f"This {type(model).__name__} is on the meta device, without weights. Load them first.")
    if any(parameter.is_inference() for parameter in model.parameters()):
        raise InputError(
            f"This {type(model).__name__} was made under torch.inference_mode, so its weights can't be worked on. "
            "Load it outside of that block; it may run inside."
        )
