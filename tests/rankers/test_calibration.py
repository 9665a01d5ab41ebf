from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from contracts.anatomies import anatomy_of, heads, neurons
from contracts.models import by_name, specimens
from contracts.specimen import Specimen, sentences
from torch import Tensor

from pliant.batches import forward
from pliant.errors import InputError
from pliant.families import describe
from pliant.gates import consumer_hooks
from pliant.objectives import Distillation
from pliant.rankers.calibration import Calibration, Stream, rest_values, unit_costs


def numbered(count: int) -> list[Tensor]:
    return [torch.tensor([float(number)]) for number in range(count)]


def numbers(batches: Any) -> list[int]:
    return [int(batch.item()) for batch in batches]


class Reopened:
    """Like a data loader: a fresh pass each time."""

    def __init__(self, batches: list[Tensor]) -> None:
        self.batches, self.passes = batches, 0

    def __iter__(self) -> Iterator[Tensor]:
        self.passes += 1
        return iter(self.batches)


class OnceOnly:
    """Looks as if it could be read again, and can't."""

    def __init__(self, batches: list[Tensor]) -> None:
        self.iterator = iter(batches)

    def __iter__(self) -> Iterator[Tensor]:
        yield from self.iterator


KINDS = {"list": list, "iterator": iter, "loader": Reopened}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "held_out"), [(2, 1), (3, 1), (4, 1), (8, 2), (31, 7), (32, 8), (100, 8)])
def test_a_quarter_is_held_out_and_never_given_out(kind: str, count: int, held_out: int) -> None:
    stream = Stream(KINDS[kind](numbered(count)))
    assert numbers(stream.held_out) == list(range(held_out))
    training = list(range(held_out, count))
    expected = (training * 3)[: 2 * len(training) + 1]
    assert numbers(islice(stream.training(), len(expected))) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [0, 1, 2, 3, 7, 40])
def test_training_begins_anywhere_in_the_cycle(kind: str, first: int) -> None:
    stream = Stream(KINDS[kind](numbered(4)))
    expected = ([1, 2, 3] * 20)[first : first + 7]
    assert numbers(islice(stream.training(first), 7)) == expected
    assert numbers(islice(stream.training(first), 7)) == expected


def test_an_iterator_is_read_no_further_than_needed() -> None:
    read: list[int] = []

    def endless() -> Iterator[Tensor]:
        for number in range(10**9):
            read.append(number)
            yield torch.tensor([float(number)])

    stream = Stream(endless())
    assert len(read) == 32
    assert numbers(islice(stream.training(), 30)) == list(range(8, 38))
    assert len(read) == 38
    assert numbers(islice(stream.training(), 3)) == [8, 9, 10]
    assert len(read) == 38


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1])
def test_too_few(kind: str, count: int) -> None:
    with pytest.raises(InputError, match=f"{count} calibration batches are too few: at least 2"):
        Stream(KINDS[kind](numbered(count)))


def test_what_turns_out_empty_is_no_endless_loop() -> None:
    stream = Stream(OnceOnly(numbered(6)))
    with pytest.raises(InputError, match=r"a OnceOnly, were empty when read again.*list"):
        next(stream.training())


def test_unit_costs() -> None:
    anatomy = anatomy_of([heads(0, 2), neurons(1, 3)])
    costs = unit_costs(anatomy, torch.device("cpu"))
    assert costs.dtype == torch.float64
    assert costs.tolist() == [108, 108, 13, 13, 13]
    assert costs.sum().item() == anatomy.prunable_parameters


@specimens
def test_the_mean_is_that_of_all_valid_tokens(specimen: Specimen) -> None:
    """Recomputed one input at a time, so that there is no padding."""
    model = specimen.model()
    anatomy = describe(model)
    seen: dict[int, list[Tensor]] = {index: [] for index in range(len(anatomy.sites))}

    def collect(index: int, inputs: Tensor) -> None:
        seen[index].append(inputs.reshape(-1, inputs.shape[-1]))

    if specimen.reads_text:
        words = sentences((7, 5, 9, 1, 3), 0, first=specimen.padding_word + 1)
        batches = [specimen.padded(words[:2]), specimen.padded(words[2:])]
        single = [specimen.padded([text]) for text in words]
    else:
        batches = [specimen.images(specimen.sizes[0], count=2), specimen.images(specimen.sizes[1], count=1)]
        single = [alone for batch in batches for alone in specimen.unpadded(batch)]
    with torch.no_grad(), consumer_hooks(model, anatomy, collect):
        for batch in single:
            forward(model, batch)
    found = rest_values(model, anatomy, batches, "mean")
    for index, values in enumerate(found):
        assert values.dtype == torch.float32
        expected = torch.cat(seen[index]).mean(dim=0)
        torch.testing.assert_close(values, expected, atol=1e-5, rtol=0)


@specimens
def test_zeros(specimen: Specimen) -> None:
    model = specimen.model()
    found = rest_values(model, describe(model), [], "zero")
    widths = [site.units * site.width for site in describe(model).sites]
    assert [len(values) for values in found] == widths
    assert not any(values.any() for values in found)


def test_nothing_but_padding() -> None:
    specimen = by_name("bert")
    batch = specimen.batch()
    batch["attention_mask"] = torch.zeros_like(batch["attention_mask"])
    model = specimen.model()
    for batches in ([batch], []):
        with pytest.raises(InputError, match="no valid token"):
            rest_values(model, describe(model), batches, "mean")


def test_an_unknown_rest() -> None:
    model = by_name("bert").model()
    with pytest.raises(InputError, match=r"Unknown rest 'median'. Allowed: mean, zero"):
        rest_values(model, describe(model), [], "median")  # pyright: ignore[reportArgumentType]


def test_generators_follow_seed_and_salt() -> None:
    model = by_name("bert").model()
    anatomy = describe(model)

    def drawn(seed: int, salt: int) -> float:
        stream = Stream(numbered(2))
        calibration = Calibration(model, anatomy, stream, Distillation("mean"), (), torch.zeros(0), seed)
        return torch.rand(1, generator=calibration.generator(salt)).item()

    values = {(seed, salt): drawn(seed, salt) for seed in (0, 1, 12345, -1) for salt in (0, 1, 1000)}
    assert len(set(values.values())) == len(values)
    assert all(drawn(*key) == value for key, value in values.items())


def test_rest_values_of_an_mlp_that_reads_stretches() -> None:
    """Padding doesn't count there either."""
    specimen = by_name("bert")
    model = specimen.model()
    anatomy = describe(model)
    batches = [{"input_ids": torch.randint(5, 20, (4, 9)), "attention_mask": torch.ones(4, 9, dtype=torch.long)}]
    batches[0]["attention_mask"][1:, 5:] = 0
    expected = rest_values(model, anatomy, batches, "mean")
    for layer in model.encoder.layer:
        layer.chunk_size_feed_forward = 3
    for found, value in zip(rest_values(model, anatomy, batches, "mean"), expected, strict=True):
        torch.testing.assert_close(found, value)


@pytest.mark.parametrize("batches", [{"input_ids": torch.ones(2, 3)}, torch.ones(2, 3)], ids=["mapping", "tensor"])
def test_one_batch_is_not_several(batches: Any) -> None:
    with pytest.raises(InputError, match=r"is not several batches\. Pass a list"):
        Stream(batches)


@pytest.mark.parametrize("batch", [["text"], "text", {}, {"input_ids": [[1]]}, None], ids=repr)
def test_what_is_no_batch(batch: Any) -> None:
    with pytest.raises(InputError, match="Calibration batch 1 is"):
        Stream([torch.zeros(1), batch])
