from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import pliant

# A source distribution comes without the benchmarks.
fashion = pytest.importorskip("benchmarks.fashion")
classifiers = pytest.importorskip("benchmarks.classifiers")

TINY = fashion.Recipe(width=16, layers=2, heads=2, epochs=2, batch=8)
SIZES = len(classifiers.SPARSITIES) + len(classifiers.AS_SMALL_IN)


def random_images(count: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 28, 28), dtype=torch.uint8, generator=generator)
    return fashion.Images(pixels, torch.randint(10, (count,), generator=generator))


def test_images_are_moved_and_mirrored_as_a_whole() -> None:
    pixels = torch.zeros(200, 28, 28, dtype=torch.uint8)
    pixels[:, 10, 4] = 200
    places = fashion.changed(pixels, torch.Generator().manual_seed(0)).nonzero()
    assert len(places) == 200
    assert set(places[:, 1].tolist()) == {8, 9, 10, 11, 12}
    assert set(places[:, 2].tolist()) == {2, 3, 4, 5, 6, 21, 22, 23, 24, 25}


def test_a_recipe_trains_and_gives_the_same_weights_again() -> None:
    images = random_images(20)
    (first, losses), (again, _) = (fashion.trained(TINY, images) for _ in range(2))
    assert len(losses) == TINY.epochs
    assert not first.training
    trained, untrained = first.state_dict(), fashion.untrained(TINY).state_dict()
    assert all(torch.equal(trained[name], again.state_dict()[name]) for name in trained)
    assert any(not torch.equal(trained[name], untrained[name]) for name in trained)


def test_step_sizes_rise_and_fall_to_nothing() -> None:
    shares = [fashion.share_of_rate(step, 100) for step in range(101)]
    assert max(shares) == shares[4] == 1
    assert shares[:5] == sorted(shares[:5])
    assert shares[5:] == sorted(shares[5:], reverse=True)
    assert shares[100] == 0


class Found(NamedTuple):
    judged: list[Any]
    full: Any
    small: pliant.anatomy.Anatomy


@pytest.fixture(scope="module")
def found() -> Found:
    model, test = fashion.untrained(TINY).eval(), random_images(12, seed=1)
    small = pliant.describe(fashion.untrained(fashion.Recipe(width=12, layers=2, heads=2)).vit)
    full = classifiers.full_model(model, test)
    batches = classifiers.calibration(random_images(16).pixels, seed=0, size=4)
    made = classifiers.ranked_and_measured("magnitude, learned + output map", 0, model, batches, full, small, steps=2)
    return Found(list(made), full, small)


def test_a_ranker_is_measured_without_and_with_output_maps(found: Found) -> None:
    labels = [judged.run["ranker"] for judged in found.judged]
    assert labels == ["magnitude, learned", "magnitude, learned + output map"]
    for judged in found.judged:
        assert {name: list(values.shape) for name, values in judged.values.items()} == {
            name: [SIZES, 12] for name in ("cosine", "top1", "agreement")
        }
        assert [point["sparsity"] for point in judged.run["points"]] == list(classifiers.SPARSITIES)
        for point, top1 in zip(judged.run["points"], judged.values["top1"], strict=False):
            assert point["top1"] == pytest.approx(top1.mean().item())


def test_a_cut_of_the_size_of_a_smaller_model_is_no_larger_with_its_map(found: Found) -> None:
    for judged in found.judged:
        assert judged.run["as_small_in"]["parameters"]["parameters"] <= found.small.total_parameters
        assert judged.run["as_small_in"]["macs"]["macs"] <= found.small.macs()


def test_what_runs_found_is_kept_and_compared_image_by_image(found: Found, tmp_path: Path) -> None:
    default = classifiers.Judged({**found.judged[0].run, "ranker": classifiers.DEFAULT}, found.judged[0].values)
    for judged in (found.judged[1], default):
        classifiers.keep(judged, tmp_path)
    kept = classifiers.kept(tmp_path)
    assert [judged.run["points"] for judged in kept] == [default.run["points"], found.judged[1].run["points"]]
    nothing = torch.zeros(12, dtype=torch.float64)
    differences = classifiers.differences(kept, nothing + 1, nothing)
    of_default, of_other = (differences[judged.run["ranker"]] for judged in kept)
    sizes = len(classifiers.SPARSITIES)
    assert of_default["against_default"]["cosine"] == [[0, 0, 0]] * sizes
    right = found.judged[1].values["top1"].double().mean(dim=1)
    assert [value for value, *_ in of_other["against_full"]] == pytest.approx((right[:sizes] - 1).tolist())
    assert of_other["against_small"]["macs"][0] == pytest.approx(right[-1].item())
    gaps = (found.judged[1].values["cosine"] - default.values["cosine"]).mean(dim=1)[:sizes]
    ahead = [value for value, *_ in of_other["against_default"]["cosine"]]
    assert ahead == pytest.approx(gaps.tolist(), abs=1e-3)
