"""Tiny random models of timm, one for each layout that its two families know; they read plain tensors."""

from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from contracts.specimen import HEADS, LAYERS, NEURONS, WIDTH, Specimen
from torch import Tensor, nn

_TINY = dict(
    embed_dim=WIDTH,
    depth=LAYERS,
    num_heads=HEADS,
    mlp_ratio=NEURONS / WIDTH,
    img_size=24,
    patch_size=8,
    num_classes=0,
    dynamic_img_size=True,
    pretrained_cfg_overlay={"input_size": (3, 24, 24)},
)
_SIZES = ((24, 24), (16, 32), (8, 8))


def is_at_least(*wanted: int) -> bool:
    """Whether timm is installed, in that release or a newer one."""
    return find_spec("timm") is not None and tuple(int(part) for part in version("timm").split(".")[:3]) >= wanted


class TimmSpecimen(Specimen):
    """One of timm's architectures, made small."""

    def __init__(
        self,
        name: str,
        architecture: str,
        options: dict[str, Any],
        family: str,
        groups: int = HEADS,
        kinds: tuple[str, ...] = ("heads", "neurons"),
    ) -> None:
        made = {"model_name": architecture, **_TINY, **options}
        super().__init__(name, nn.Module, dict, made, family, _SIZES, groups=groups, kinds=kinds)

    def build(self, attention: str) -> Any:
        import timm

        model = timm.create_model(**self.options)
        for module in model.modules():
            if attention == "eager" and hasattr(module, "fused_attn"):
                vars(module)["fused_attn"] = False
        return model

    def call(self, model: Any, batch: Tensor) -> dict[str, Tensor]:
        return {"last_hidden_state": model.forward_features(batch), "embeddings": model(batch)}

    def tokens(self, model: Any, batch: Tensor) -> int:
        return model.forward_features(batch).shape[1]

    @property
    def remembers_its_making(self) -> bool:
        """Older releases don't record the arguments that a model was made with."""
        return is_at_least(1, 0, 31)

    def save(self, model: Any, directory: Path) -> None:
        import timm

        factory = ("model_name", "pretrained_cfg_overlay")
        arguments = {name: value for name, value in self.options.items() if name not in factory}
        timm.models.save_for_hf(model, str(directory), model_args=arguments, safe_serialization=True)

    def load(self, directory: Path) -> Any:
        import timm

        return timm.create_model(f"local-dir:{directory}", pretrained=True).eval()

    def images(self, size: tuple[int, int], seed: int = 0, count: int = 3) -> Tensor:
        return torch.randn(count, 3, *size, generator=torch.Generator().manual_seed(seed))


ALWAYS = (
    TimmSpecimen("timm-vit", "vit_small_patch16_224", {"qk_norm": True}, "timm_vit"),
    TimmSpecimen("timm-distilled", "deit_small_distilled_patch16_224", {}, "timm_vit"),
    TimmSpecimen("timm-layer-scale", "deit3_small_patch16_224", {"num_classes": 5}, "timm_vit"),
    TimmSpecimen("timm-registers", "vit_giant_patch14_reg4_dinov2", {"mlp_ratio": 2 * NEURONS / WIDTH}, "timm_vit"),
    TimmSpecimen("timm-attention-pool", "vit_base_patch16_siglip_224", {}, "timm_vit"),
    TimmSpecimen("timm-post-norm", "vit_base_patch16_rpn_224", {"num_classes": 5}, "timm_vit"),
    TimmSpecimen(
        "timm-whole-heads", "vit_small_patch16_224", {"scale_attn_norm": True}, "timm_vit", kinds=("neurons",)
    ),
    TimmSpecimen("timm-dinov3", "vit_small_patch16_dinov3", {}, "timm_eva"),
    TimmSpecimen("timm-dinov3-gated", "vit_small_plus_patch16_dinov3_qkvb", {}, "timm_eva"),
    TimmSpecimen("timm-eva02", "eva02_small_patch14_224", {}, "timm_eva"),
    TimmSpecimen("timm-whole-mlps", "eva02_base_patch14_224", {}, "timm_eva", kinds=("heads",)),
    TimmSpecimen("timm-eva-post-norm", "eva02_enormous_patch14_clip_224", {}, "timm_eva"),
)

ROPE = (
    TimmSpecimen("timm-rope", "vit_pe_core_tiny_patch16_384", {"attn_pool_num_heads": HEADS}, "timm_eva"),
    TimmSpecimen("timm-grouped", "vit_base_patch16_sapiens2", {"num_kv_heads": 2}, "timm_eva", groups=2),
)
"""What needs timm 1.0.30."""

TIMM = (*(ALWAYS if is_at_least(1) else ()), *(ROPE if is_at_least(1, 0, 30) else ()))
