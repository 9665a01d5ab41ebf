from typing import Any

import pytest
import torch
from contracts.calibrations import KINDS, calibration_of, consumer_inputs
from contracts.models import by_name

from pliant.errors import InputError
from pliant.rankers import activations
from pliant.rankers.activations import second_moments, variances

BERT = by_name("bert")


@pytest.mark.parametrize("name", KINDS)
def test_variances_are_those_of_valid_tokens(name: str) -> None:
    calibration = calibration_of(by_name(name), number=2)
    for found, inputs in zip(variances(calibration), consumer_inputs(calibration), strict=True):
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, inputs.var(dim=0, correction=0), rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("rest", ["mean", "zero"])
def test_second_moments_are_around_the_rest_values(name: str, rest: str) -> None:
    calibration = calibration_of(by_name(name), rest=rest, number=2)
    looked_at = zip(second_moments(calibration), consumer_inputs(calibration), calibration.rest, strict=True)
    for found, inputs, values in looked_at:
        offsets = inputs - values.double()
        expected = offsets.T @ offsets / len(inputs)
        torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("held", "passes"), [(2**26, 1), (32**2 + 44**2, 2), (1, 4)])
def test_as_many_sites_at_once_as_fit(held: int, passes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calibration = calibration_of(by_name("bert"), number=2)
    expected = list(second_moments(calibration))
    calls = []
    plain = activations._moments
    monkeypatch.setattr(activations, "_HELD_ELEMENTS", held)
    monkeypatch.setattr(activations, "_moments", lambda it, indices: calls.append(indices) or plain(it, indices))
    assert all(torch.equal(one, other) for one, other in zip(second_moments(calibration), expected, strict=True))
    assert len(calls) == passes


@pytest.mark.parametrize("looks", [variances, lambda it: list(second_moments(it))])
def test_inputs_without_a_valid_token(looks: Any) -> None:
    """With rest values of zero, nothing has looked at them before."""
    batches = [{**batch, "attention_mask": torch.zeros_like(batch["attention_mask"])} for batch in BERT.batches(3)]
    with pytest.raises(InputError, match="no valid token"):
        looks(calibration_of(BERT, rest="zero", batches=batches))
