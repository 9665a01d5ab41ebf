from collections.abc import Sequence

import numpy
import pytest
import torch

from pliant.evaluation.mteb_encoder import MtebEncoder

mteb = pytest.importorskip("mteb")


def encoder(inputs: str = "text") -> MtebEncoder:
    def by(sign: float) -> object:
        def embed(items: Sequence[str]) -> torch.Tensor:
            return torch.tensor([[sign * len(item), 1.0] for item in items])

        return embed

    return MtebEncoder(by(1.0), by(-1.0), inputs)  # pyright: ignore[reportArgumentType] - `object` above


def test_it_is_what_mteb_calls_an_encoder() -> None:
    assert isinstance(encoder(), mteb.EncoderProtocol) and not isinstance(encoder(), mteb.CrossEncoderProtocol)
    assert encoder("image").mteb_model_meta.modalities == ["image"]


def test_a_model_for_each_type_of_prompt() -> None:
    batches = [{"text": ["a", "bb"], "id": ["1", "2"]}, {"text": ["ccc"], "id": ["3"]}]
    kinds = mteb.types.PromptType
    for prompt_type, sign in ((kinds.query, 1.0), (kinds.document, -1.0), (None, 1.0)):
        found = encoder().encode(batches, prompt_type=prompt_type, task_metadata=None, hf_split="test", batch_size=2)
        assert found.tolist() == [[sign, 1.0], [2 * sign, 1.0], [3 * sign, 1.0]]


def test_similarity_is_the_cosine() -> None:
    one, other = numpy.array([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[1.0, 1.0], [-1.0, 0.0]])
    half = 0.5**0.5
    torch.testing.assert_close(encoder().similarity(one, other), torch.tensor([[half, -1.0], [half, 0.0]]))
    torch.testing.assert_close(encoder().similarity_pairwise(one, other), torch.tensor([half, 0.0]))
