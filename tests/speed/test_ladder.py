import pytest
import torch
from speed.specimens import batch, pair

from pliant.errors import BudgetError, InputError
from pliant.speed import measure


def test_every_size_is_timed_at_every_batch_size() -> None:
    original, elastic = pair()
    seen: list[float] = []
    found = measure(
        elastic,
        original,
        [batch(1), batch(3)],
        [0.5, 0.0, 0.5],
        model="tiny",
        tokens=9,
        cuts=True,
        rounds=2,
        switches=4,
        progress=lambda label, fraction: seen.append(fraction),
    )
    assert [(size.form, size.sparsity) for size in found.sizes] == [
        ("original", 0.0),
        ("view", 0.0),
        ("view", 0.5),
        ("cut", 0.0),
        ("cut", 0.5),
    ]
    for size in found.sizes:
        assert [(timing.batch_size, timing.rounds) for timing in size.timings] == [(1, 2), (3, 2)]
        assert all(0 < timing.p50_ms <= timing.p99_ms and timing.peak_bytes for timing in size.timings)
    cost = elastic.cost(elastic.plan(sparsity=0.5), 9)
    for half in (found.sizes[2], found.sizes[4]):
        assert (half.parameters, half.macs, half.achieved_sparsity) == (cost.parameters, cost.macs, cost.sparsity)
    assert found.original.macs == elastic.anatomy.macs(9) and found.macs_ratio(found.sizes[1]) == 1
    assert found.switching is not None and found.switching.count == 4
    assert (found.device, found.threads, found.tokens) == ("cpu", torch.get_num_threads(), 9)
    assert (found.precision, found.ranker, found.image_size) == ("float32", "random", None)
    assert seen == sorted(seen) and seen[-1] == 1


def test_views_alone_without_changes_of_size() -> None:
    original, elastic = pair("vit")
    found = measure(elastic, original, [batch(1, "vit")], [0.5], model="tiny", rounds=1, switches=0)
    assert [size.form for size in found.sizes] == ["original", "view"]
    assert found.switching is None
    assert found.image_size is not None and found.tokens == elastic.anatomy.native_tokens


def test_nothing_runs_before_all_sizes_are_planned() -> None:
    original, elastic = pair()
    original.register_forward_pre_hook(lambda module, inputs: pytest.fail("the model ran"))
    with pytest.raises(BudgetError, match=r"sparsity=1\.5"):
        measure(elastic, original, [batch(1)], [0.5, 1.5], model="tiny", rounds=1)


@pytest.mark.parametrize(("counts", "sizes"), [((), (0.5,)), ((1,), ()), ((2, 2), (0.5,))])
def test_a_ladder_without_steps_is_refused(counts: tuple[int, ...], sizes: tuple[float, ...]) -> None:
    original, elastic = pair()
    with pytest.raises(InputError, match="give at least one of each, once"):
        measure(elastic, original, [batch(count) for count in counts], sizes, model="tiny", rounds=1)
