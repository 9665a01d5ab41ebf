"""`pliant describe zoo`: the named encoders, and what half their size would save."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from pliant.anatomy import Anatomy
from pliant.budget import Alignment
from pliant.cost import Cost, cost_of
from pliant.errors import MissingExtraError
from pliant.evaluation.formatting import NO_VALUE, quantity
from pliant.families import ZOO, Encoder

COLUMNS = ("reads", "units", "prunable", "parameters", "MACs", "gone at 50 %", "MACs gone", "licence")


@dataclass(frozen=True)
class Sizes:
    """What one encoder costs, whole and at half.

    Args:
        anatomy: The encoder's anatomy.
        whole: The cost of all of it.
        half: The cost when every site gives up half its units. A ranking takes them where they are missed least, which
            is about as many parameters, and more or fewer MACs.
    """

    anatomy: Anatomy
    whole: Cost
    half: Cost

    @property
    def removed_parameters(self) -> int:
        """Parameters that are gone at half; a consumer that gains a bias counts against them."""
        return self.whole.parameters - self.half.parameters

    @property
    def removed_macs(self) -> int:
        """Multiply-accumulates for one input that are gone at half."""
        return self.whole.macs - self.half.macs


def sizes_of(anatomy: Anatomy, tokens: int | None = None) -> Sizes:
    """Return what an encoder costs, whole and at half, with widths snapped to the default alignment.

    Args:
        anatomy: Its anatomy.
        tokens: Input length for the MACs; by default the native one.
    """
    units = tuple(site.units for site in anatomy.sites)
    half = tuple(Alignment().snap(site, site.units // 2) for site in anatomy.sites)
    return Sizes(anatomy, cost_of(anatomy, units, tokens), cost_of(anatomy, half, tokens))


def described(tokens: int | None = None) -> Iterator[tuple[Encoder, Sizes | str]]:
    """Yield every encoder of the zoo with its sizes, or with the reason why they can't be had here.

    Args:
        tokens: Input length for the MACs; by default each encoder's native one.
    """
    for encoder in ZOO.values():
        try:
            yield encoder, sizes_of(encoder.anatomy(), tokens)
        except MissingExtraError as error:
            yield encoder, str(error)


def summary(tokens: int | None) -> dict[str, Any]:
    """Return the zoo as JSON can hold it."""
    return {"encoders": [_summary_of(encoder, sizes) for encoder, sizes in described(tokens)]}


def _summary_of(encoder: Encoder, sizes: Sizes | str) -> dict[str, Any]:
    made_of = {key: value for key, value in asdict(encoder).items() if key != "arguments"}
    if isinstance(sizes, str):
        return {**made_of, "missing": sizes}
    return {
        **made_of,
        "family": sizes.anatomy.family,
        "units": sizes.anatomy.units,
        "prunable_parameters": sizes.anatomy.prunable_parameters,
        "total_parameters": sizes.whole.parameters,
        "tokens": sizes.whole.tokens,
        "macs": sizes.whole.macs,
        "half": asdict(sizes.half),
    }


def cells(encoder: Encoder, sizes: Sizes | str) -> tuple[str, ...]:
    """Return an encoder's row, one text for each of `COLUMNS`."""
    native = f"{encoder.native:,} tokens" if encoder.reads == "text" else f"{encoder.native}² pixels"
    if isinstance(sizes, str):
        return (native, *[NO_VALUE] * (len(COLUMNS) - 2), encoder.licence)
    numbers = (
        sizes.anatomy.prunable_parameters,
        sizes.whole.parameters,
        sizes.whole.macs,
        sizes.removed_parameters,
        sizes.removed_macs,
    )
    return (native, f"{sizes.anatomy.units:,}", *map(quantity, numbers), encoder.licence)


def report(tokens: int | None) -> Group:
    """Return the zoo as a table for the terminal, with what its columns mean."""
    made = Table(box=box.SIMPLE_HEAD)
    made.add_column("encoder")
    for column in COLUMNS:
        made.add_column(column, justify="left" if column in ("reads", "licence") else "right")
    missing: dict[str, None] = {}
    for encoder, sizes in described(tokens):
        made.add_row(encoder.name, *cells(encoder, sizes))
        missing |= {sizes: None} if isinstance(sizes, str) else {}
    # Wider than some terminals, since names must stay whole for those who copy them or search the output.
    made.width = Console(width=1000).measure(made).maximum
    at = "each encoder's native input" if tokens is None else f"inputs of {tokens:,} tokens"
    remark = f"MACs are those of {at}. 50 % of the prunable parameters, taken evenly: half the units of every site."
    return Group(made, *map(Text, (remark, *missing)))
