import copy
import gc
import pickle
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from contracts.elastics import assert_equal_outputs, fresh_elastic, ranked
from contracts.models import by_name
from torch import nn
from transformers import BertConfig, BertModel

from pliant.budget import Alignment, Cut
from pliant.elastic import Elastic, load
from pliant.errors import ArtefactError, BudgetError, InputError
from pliant.families import describe
from pliant.ranking import Ranking, fingerprint

BERT = by_name("bert")


@pytest.fixture
def elastic() -> Elastic:
    return fresh_elastic(BERT)


def test_asking_again_gives_the_same_module(elastic: Elastic) -> None:
    half = elastic.at(sparsity=0.5)
    assert elastic.at(sparsity=0.5) is half
    assert elastic.view(elastic.plan(sparsity=0.5)) is half
    assert elastic.at(sparsity=0.3) is not half


def test_budgets_with_one_answer_share_their_view(elastic: Elastic) -> None:
    half = elastic.at(sparsity=0.5)
    cost = elastic.cost(elastic.plan(sparsity=0.5))
    assert elastic.at(params=cost.parameters) is half
    assert elastic.at(macs=cost.macs) is half


def test_cuts_are_new_every_time(elastic: Elastic) -> None:
    assert elastic.cut(sparsity=0.5) is not elastic.cut(sparsity=0.5)


def test_old_views_are_let_go_but_still_work(elastic: Elastic) -> None:
    first = elastic.at(sparsity=0.7)
    expected = first(**BERT.batch())
    full = tuple(site.units for site in elastic.anatomy.sites)
    for width in range(1, 44):
        for heads in (3, 4):
            elastic.view(Cut((heads, width, *full[2:])))
    assert len(elastic._views) == 64
    assert elastic.at(sparsity=0.7) is not first
    assert_equal_outputs(first(**BERT.batch()), expected, tolerance=0)


@pytest.mark.parametrize(
    "asked", [{}, {"sparsity": 0.5, "params": 10_000}, {"sparsity": 1.0}, {"params": 10}, {"tokens": 3}]
)
@pytest.mark.parametrize("method", ["at", "cut", "plan"])
def test_budgets_that_cannot_be_met(elastic: Elastic, method: str, asked: dict[str, Any]) -> None:
    for _ in range(2):
        with pytest.raises(BudgetError):
            getattr(elastic, method)(**asked)


def test_alignment(elastic: Elastic) -> None:
    assert any(width % 8 for width in fresh_elastic(BERT, neurons=1).plan(sparsity=0.5).widths[1::2])
    assert all(width % 8 == 0 for width in elastic.plan(sparsity=0.6).widths[1::2])


def test_a_second_elastic_over_the_same_model(elastic: Elastic) -> None:
    with pytest.raises(ArtefactError, match="already taken over"):
        Elastic(elastic.model, elastic.ranking)


def test_a_ranking_of_another_model_changes_nothing() -> None:
    model = BERT.model(seed=1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(ArtefactError, match="another model"):
        Elastic(model, ranked("bert"))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_the_model_is_in_evaluation_mode() -> None:
    whole = Elastic(BERT.model().train(), ranked("bert"))
    assert not any(module.training for module in whole.at(sparsity=0.5).modules())
    assert not whole.model.training


def test_views_made_in_inference_mode_can_be_used_outside(elastic: Elastic) -> None:
    with torch.inference_mode():
        view, cut = elastic.at(sparsity=0.5), elastic.cut(sparsity=0.5)
    for model in (view, cut):
        assert not any(parameter.is_inference() for parameter in model.parameters())
        model(**BERT.batch()).last_hidden_state.sum().backward()
    assert all(parameter.grad is not None for parameter in cut.encoder.parameters())  # pyright: ignore[reportAttributeAccessIssue]


def test_a_cut_can_be_trained_without_the_full_model_noticing(elastic: Elastic) -> None:
    before = elastic.model(**BERT.batch()).last_hidden_state.detach()
    cut = elastic.cut(sparsity=0.5)
    optimiser = torch.optim.SGD(cut.parameters(), lr=0.1)
    cut(**BERT.batch()).last_hidden_state.square().sum().backward()
    optimiser.step()
    assert torch.equal(elastic.model(**BERT.batch()).last_hidden_state, before)


def test_several_sizes_in_several_threads(elastic: Elastic) -> None:
    """Every thread asks for every size, in its own order, while the cache is empty."""
    sparsities = [0.0, 0.15, 0.3, 0.45, 0.6, 0.75]
    reference = fresh_elastic(BERT)
    with torch.no_grad():
        expected = {s: reference.at(sparsity=s)(**BERT.batch()).last_hidden_state for s in sparsities}
    barrier = threading.Barrier(6)

    def work(offset: int) -> list[tuple[nn.Module, bool]]:
        barrier.wait()
        found = []
        for turn in range(18):
            sparsity = sparsities[(offset + turn) % 6]
            view = elastic.at(sparsity=sparsity)
            with torch.no_grad():
                output = view(**BERT.batch()).last_hidden_state
            found.append((view, torch.allclose(output, expected[sparsity], atol=1e-6)))
        return found

    with ThreadPoolExecutor(6) as pool:
        results = [result for found in pool.map(work, range(6)) for result in found]
    assert all(right for _, right in results)
    assert len({id(view) for view, _ in results}) == len({elastic.plan(sparsity=s) for s in sparsities})


def minilm() -> tuple[BertModel, Ranking]:
    """A model of MiniLM's size with random weights, and random scores for it."""
    config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    model = BertModel(config).eval()
    anatomy = describe(model)
    rest = tuple(torch.randn(site.units * site.width) for site in anatomy.sites)
    return model, Ranking(torch.rand(anatomy.units), rest, "mean", fingerprint(model, anatomy), {})


def own_bytes(view: nn.Module, full: nn.Module) -> int:
    """Bytes of the storages that a view has for itself."""
    shared = {parameter.untyped_storage().data_ptr() for parameter in full.parameters()}
    own = {parameter.untyped_storage().data_ptr(): parameter.untyped_storage() for parameter in view.parameters()}
    return sum(storage.nbytes() for pointer, storage in own.items() if pointer not in shared)


def test_a_dozen_views_weigh_almost_nothing() -> None:
    model, ranking = minilm()
    whole = Elastic(model, ranking)
    size = sum(parameter.nbytes for parameter in model.parameters())
    whole.at(sparsity=0.9)
    gc.collect()
    tracemalloc.start()
    views = [whole.at(sparsity=0.05 + 0.065 * step) for step in range(12)]
    gc.collect()
    python, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    tensors = sum(own_bytes(view, model) for view in views)
    assert len({id(view) for view in views}) == 12
    assert python + tensors < 0.02 * size, f"{python} in objects, {tensors} in tensors, of {size}"


def test_saving_leaves_the_elastic_as_it_was(elastic: Elastic, tmp_path: Path) -> None:
    half = elastic.at(sparsity=0.5)
    weights = {name: tensor.clone() for name, tensor in elastic.model.state_dict().items()}
    elastic.save(tmp_path / "saved")
    assert elastic.at(sparsity=0.5) is half
    assert all(torch.equal(weights[name], tensor) for name, tensor in elastic.model.state_dict().items())


def test_a_saved_elastic_can_be_saved_again(elastic: Elastic, tmp_path: Path) -> None:
    elastic.save(tmp_path / "first")
    load(tmp_path / "first").save(tmp_path / "second")
    again = load(tmp_path / "second", alignment=Alignment(4))
    assert torch.equal(again.ranking.scores, elastic.ranking.scores)
    assert_equal_outputs(again.model(**BERT.batch()), BERT.model()(**BERT.batch()))
    assert again.plan(sparsity=0.5) != elastic.plan(sparsity=0.5)


def test_a_directory_that_is_there_is_left_as_it_is(elastic: Elastic, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(InputError, match="already exists"):
        elastic.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "pliant.safetensors"])
def test_a_damaged_file_is_noticed(elastic: Elastic, name: str, tmp_path: Path) -> None:
    elastic.save(tmp_path / "saved")
    file = tmp_path / "saved" / name
    whole = bytearray(file.read_bytes())
    whole[-3] ^= 1
    file.write_bytes(whole)
    with pytest.raises(ArtefactError):
        load(tmp_path / "saved")
    file.unlink()
    with pytest.raises(ArtefactError):
        load(tmp_path / "saved")


def test_directories_that_are_none_of_ours(tmp_path: Path) -> None:
    BERT.model().save_pretrained(tmp_path / "stock")
    with pytest.raises(ArtefactError, match="pliant didn't write it"):
        load(tmp_path / "stock")
    with pytest.raises(InputError, match="No directory"):
        load(tmp_path / "none")


@pytest.mark.parametrize("widths", [(1, 2), (-1, 1, 1, 1), (1, 45, 1, 1), (1, 10_000, 1, 1)])
def test_a_cut_of_another_model(elastic: Elastic, widths: tuple[int, ...]) -> None:
    with pytest.raises(BudgetError, match=r"doesn't fit this model.*plan\(\)"):
        elastic.view(Cut(widths))


def test_copies_and_pickles_stand_alone(elastic: Elastic) -> None:
    half = elastic.at(sparsity=0.5)
    for other in (copy.deepcopy(elastic), pickle.loads(pickle.dumps(elastic))):
        batch = BERT.batch()
        assert_equal_outputs(other.at(sparsity=0.5)(**batch), half(**batch))
        assert other.at(sparsity=0.5) is not half
        assert other.plan(sparsity=0.3) == elastic.plan(sparsity=0.3)


@pytest.mark.parametrize("whole", [True, False], ids=["model", "layer"])
def test_views_of_a_model_that_was_compiled_in_place(elastic: Elastic, whole: bool) -> None:
    batch = BERT.batch()
    expected = elastic.at(sparsity=0.5)(**batch).last_hidden_state
    compiled = elastic.model if whole else elastic.model.get_submodule("encoder.layer.0")
    compiled.compile(backend="eager")
    cut = elastic.plan(sparsity=0.5)
    for small in (elastic._make_view(cut, None), elastic.cut(sparsity=0.5)):
        torch.testing.assert_close(small(**batch).last_hidden_state, expected)
    assert compiled._compiled_call_impl is not None


@pytest.mark.parametrize("asked", [{"sparsity": [0.5]}, {"params": {}}, {"macs": 1e9, "tokens": [8]}])
def test_budgets_without_a_hash(elastic: Elastic, asked: dict[str, Any]) -> None:
    with pytest.raises(BudgetError):
        elastic.at(**asked)


def test_arguments_of_other_types(elastic: Elastic) -> None:
    with pytest.raises(InputError, match="no Ranking"):
        Elastic(BERT.model(), "ranking")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="no Alignment"):
        Elastic(BERT.model(), ranked(BERT.name), alignment=8)  # pyright: ignore[reportArgumentType]
    with pytest.raises(BudgetError, match="no Cut"):
        elastic.view((4, 8))  # pyright: ignore[reportArgumentType]


def test_models_whose_weights_cannot_be_worked_on() -> None:
    with pytest.raises(InputError, match="meta"):
        Elastic(BERT.model().to("meta"), ranked(BERT.name))
    with torch.inference_mode():
        frozen = BERT.model()
    with pytest.raises(InputError, match="inference_mode"):
        Elastic(frozen, ranked(BERT.name))
