import pytest
import torch
from contracts.anatomies import heads, neurons
from torch import Tensor, nn

from pliant.anatomy import Site
from pliant.rest_bias import RestBias

SITES = [
    neurons(0, 1),
    neurons(0, 7),
    neurons(0, 24),
    neurons(0, 25),
    neurons(0, 131),
    heads(0, 1),
    heads(0, 5),
    heads(0, 30),
]


def consumer_of(site: Site, bias: bool = True) -> nn.Linear:
    return nn.Linear(site.units * site.width, site.outputs, bias=bias)


def bias_at(table: RestBias, width: int) -> Tensor:
    bias = table.at(width)
    assert bias is not None
    return bias


@pytest.mark.parametrize("site", SITES, ids=lambda site: f"{site.units} {site.kind}")
def test_every_width(site: Site) -> None:
    """The bias plus what the removed columns make of their rest values, summed the plain way."""
    consumer, rest = consumer_of(site), torch.randn(site.units * site.width)
    table = RestBias(site, consumer, rest)
    for width in range(site.units + 1):
        removed = slice(width * site.width, None)
        expected = consumer.bias.double() + consumer.weight.double()[:, removed] @ rest.double()[removed]
        torch.testing.assert_close(bias_at(table, width), expected.float(), atol=1e-5, rtol=0)


def test_nothing_removed_is_the_bias_itself() -> None:
    site = neurons(0, 10)
    consumer = consumer_of(site)
    assert torch.equal(bias_at(RestBias(site, consumer, torch.randn(10)), 10), consumer.bias)


def test_a_consumer_without_bias_gets_one_only_when_units_leave() -> None:
    site = neurons(0, 10)
    consumer, rest = consumer_of(site, bias=False), torch.randn(10)
    table = RestBias(site, consumer, rest)
    assert table.at(10) is None
    torch.testing.assert_close(bias_at(table, 4), consumer.weight[:, 4:] @ rest[4:])


def test_rest_values_of_zero_add_nothing() -> None:
    site = neurons(0, 10)
    consumer = consumer_of(site)
    assert torch.equal(bias_at(RestBias(site, consumer, torch.zeros(10)), 3), consumer.bias)


def test_bfloat16_is_summed_in_double_precision() -> None:
    """1,000 addends of 1/256 on top of 100: added one by one in bfloat16, none would count."""
    site = neurons(0, 1000, outputs=1)
    consumer = consumer_of(site).bfloat16()
    nn.init.constant_(consumer.weight, 1 / 256)
    nn.init.constant_(consumer.bias, 100)
    bias = bias_at(RestBias(site, consumer, torch.ones(1000)), 0)
    assert bias.dtype == torch.bfloat16
    assert bias.item() == torch.tensor(100 + 1000 / 256).bfloat16().item()


def test_the_table_is_small() -> None:
    site = neurons(0, 4096, outputs=8)
    table = RestBias(site, consumer_of(site), torch.randn(4096))
    marks = [value for value in vars(table).values() if isinstance(value, torch.Tensor) and value.dim() == 2]
    assert sum(mark.numel() for mark in marks) <= 26 * 8
