"""Stand-ins: they compute what the modules compute that they stand in for."""

import pytest
import torch
from torch import Tensor, nn

from pliant.replacements import Constant, Packed, Passthrough


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("parts", [2, 3])
def test_packed_keeps_the_first_rows_of_each_part(bias: bool, parts: int) -> None:
    linear, inputs = nn.Linear(5, parts * 4, bias), torch.randn(2, 7, 5)
    packed = Packed(linear, parts, 3)
    expected = linear(inputs).unflatten(-1, (parts, 4))[..., :3].flatten(-2)
    torch.testing.assert_close(packed(inputs), expected)
    torch.testing.assert_close(packed.linear()(inputs), expected)


def test_packed_shares_its_weights_and_its_linear_does_not() -> None:
    linear = nn.Linear(5, 12)
    packed = Packed(linear, 3, 2)
    assert packed.weights[1].data_ptr() == linear.weight[4:].data_ptr()
    one = packed.linear()
    assert (one.in_features, one.out_features) == (5, 6) and one.weight.is_contiguous()
    assert one.weight.untyped_storage().data_ptr() != linear.weight.untyped_storage().data_ptr()


@pytest.mark.parametrize("named", [True, False])
def test_a_constant_is_the_same_for_every_token(named: bool) -> None:
    constant, tokens = Constant(nn.Parameter(torch.arange(3.0)), returns=1), torch.randn(2, 4, 9)
    found = constant(hidden_states=tokens, attention_mask=None) if named else constant(tokens, None)
    assert torch.equal(found, torch.arange(3.0).expand(2, 4, 3))


@pytest.mark.parametrize("made", [Constant(nn.Parameter(torch.zeros(3)), returns=2), Passthrough(returns=2)])
def test_of_several_values_the_first_is_the_output(made: nn.Module) -> None:
    output, nothing = made(torch.zeros(2, 4, 3), torch.ones(1))
    assert isinstance(output, Tensor) and output.shape == (2, 4, 3) and nothing is None
