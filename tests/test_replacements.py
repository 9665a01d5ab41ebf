"""Stand-ins: they compute what the modules compute that they stand in for."""

import pytest
import torch
from torch import Tensor, nn

from pliant.replacements import Constant, Packed, Passthrough, PicksHeads


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


class Scores(nn.Module):
    """Adds a bias to scores, as an attention does; it has a part and an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.scale = nn.Linear(2, 2), 3.0

    def forward(self, scores: Tensor, bias: Tensor | None = None) -> Tensor:
        return self.linear(scores) * self.scale + (0 if bias is None else bias)


def test_heads_pick_their_rows_of_a_shared_bias() -> None:
    stock, bias = Scores(), torch.randn(1, 5, 2, 2)
    picks = PicksHeads(stock, "bias", torch.tensor([4, 0, 2]))
    scores = torch.randn(1, 3, 2, 2)
    torch.testing.assert_close(picks(scores, bias=bias), stock(scores, bias=bias[:, [4, 0, 2]]))
    torch.testing.assert_close(picks(scores), stock(scores))


def test_what_picks_heads_has_the_stock_names_and_leaves_the_stock_alone() -> None:
    stock = Scores()
    picks = PicksHeads(stock, "bias", torch.arange(3))
    assert picks.state_dict().keys() == stock.state_dict().keys() | {"heads"}
    assert picks.linear is stock.linear and picks.scale == 3.0
    assert not hasattr(stock, "heads")


def test_a_constant_can_be_written_into() -> None:
    bias = nn.Parameter(torch.ones(3))
    with torch.no_grad():
        output = Constant(bias, returns=1)(torch.zeros(2, 4, 3))
        output += 1
    assert torch.equal(bias, torch.ones(3)) and torch.equal(output, torch.full((2, 4, 3), 2.0))
