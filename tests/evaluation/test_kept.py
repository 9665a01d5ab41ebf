import pytest

from pliant.anatomy import Anatomy
from pliant.budget import Cut
from pliant.errors import InputError
from pliant.evaluation.kept import Kept


def test_sizes_come_ascending_and_once(kept: Kept) -> None:
    assert kept.sparsities == (0.0, 0.25, 0.75)
    assert kept.widths == ((2, 8, 2, 8), (1, 6, 1, 6), (1, 2, 1, 2))


def test_rows_are_the_sites_of_one_kind_over_the_sizes(kept: Kept) -> None:
    rows = kept.rows("neurons")
    assert [(site.name, widths) for site, widths in rows] == [("layer.0.mlp", (8, 6, 2)), ("layer.1.mlp", (8, 6, 2))]
    assert [widths for _, widths in kept.rows("heads")] == [(2, 1, 1)] * 2


def test_only_kinds_that_the_model_has(anatomy: Anatomy) -> None:
    heads_only = Kept((0.5,), (anatomy.sites[0],), ((1,),))
    assert heads_only.kinds == ("heads",)


def test_no_sizes_are_refused(anatomy: Anatomy) -> None:
    class Planner:
        def __init__(self) -> None:
            self.anatomy = anatomy

        def plan(self, *, sparsity: float) -> Cut:
            return Cut((1, 1, 1, 1))

    with pytest.raises(InputError, match="No sparsities"):
        Kept.of(Planner(), [])
