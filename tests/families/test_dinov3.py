"""DINOv3: keys without a bias, images that aren't square, and positions that it can't do without."""

import pytest
from contracts.models import by_name
from torch import nn
from transformers import DINOv3ViTConfig, DINOv3ViTModel

from pliant.errors import UnsupportedModelError
from pliant.families import describe


def test_only_keys_have_no_bias() -> None:
    heads = describe(by_name("dinov3").model()).sites[0]
    assert {part.module.rpartition(".")[2]: part.bias for part in heads.producers} == {
        "q_proj": True,
        "k_proj": False,
        "v_proj": True,
    }


@pytest.mark.parametrize("size", [(28, 42), [42, 28]])
def test_the_native_image_need_not_be_square(size: object) -> None:
    model = DINOv3ViTModel(DINOv3ViTConfig(**{**by_name("dinov3").options, "image_size": size}))
    assert describe(model).native_tokens == 4 * 6 + 1 + 3


def test_without_its_rotary_embeddings_it_is_refused() -> None:
    model = by_name("dinov3").model()
    model.rope_embeddings = nn.Identity()
    with pytest.raises(UnsupportedModelError, match="no embeddings of positions"):
        describe(model)


def test_a_gated_mlp_without_its_gate_is_no_plain_one() -> None:
    model = by_name("dinov3-gated").model()
    mlp = describe(model).sites[-1].name
    del model.get_submodule(mlp)._modules["gate_proj"]
    with pytest.raises(UnsupportedModelError, match=f"{mlp}.gate_proj"):
        describe(model)
