"""Elastic: one model at every size."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pliant import artefacts
from pliant.batches import device_of
from pliant.budget import Alignment, Budget, Cut, Planner
from pliant.cost import Cost, cost_of
from pliant.errors import BudgetError, InputError
from pliant.families import describe
from pliant.machine import described
from pliant.output_maps import OutputMap, OutputMaps
from pliant.ranking import Ranking, check_output_maps
from pliant.rest_bias import RestBias
from pliant.surgery import picked_heads, reorder_, reordered, standalone, view
from pliant.times import Times

_LIVE_VIEWS = 64
_REMEMBERED_BUDGETS = 4096


class Elastic:
    """A model that runs at any size from one set of weights.

    Takes the model over: its units are reordered in place, so that every cut is a prefix of every site. It computes
    the same as before; a ranking no longer fits it, though.

    Args:
        model: The model that the ranking was made for, in evaluation mode from here on.
        ranking: Its ranking.
        alignment: The multiples that widths snap to; by default those that the ranking's output maps were fitted with,
            else 8 neurons on a CPU and 64 on a GPU, and whole heads.

    Raises:
        ArtefactError: The ranking belongs to another model.
        UnsupportedModelError: No family knows the model.

    Example:
        >>> import pliant, torch
        >>> from transformers import BertConfig, BertModel
        >>> model = BertModel(BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        ...                              intermediate_size=64, vocab_size=100)).eval()
        >>> batches = [{"input_ids": torch.randint(0, 100, (4, 9))} for _ in range(4)]
        >>> elastic = pliant.Elastic(model, pliant.rank(model, batches, steps=2))
        >>> half = elastic.at(sparsity=0.5)
        >>> half(**batches[0]).last_hidden_state.shape
        torch.Size([4, 9, 32])
    """

    def __init__(self, model: nn.Module, ranking: Ranking, *, alignment: Alignment | None = None) -> None:
        """Check that the ranking fits, reorder the units and tabulate the rest biases."""
        _check_types(ranking, alignment)
        self.anatomy = describe(model)
        """What the model is made of."""
        ranking.check(model, self.anatomy)
        self.ranking = ranking
        """The ranking, in the order that the units had before."""
        self.model = model.eval()
        """The full model."""
        self.alignment = alignment or self._usual_alignment()
        """The multiples that widths snap to."""
        self._planner = Planner(self.anatomy, ranking, self.alignment)
        self._orders = [
            torch.argsort(ranking.scores[units], descending=True, stable=True) for _, units in self.anatomy.slices()
        ]
        reorder_(model, self.anatomy, self._orders)
        self._output_maps = self._placed_maps()
        self._rest_biases = [self._rest_bias(index) for index in range(len(self.anatomy.sites))]
        self._asked: dict[tuple[float | None, ...], Cut] = {}
        self._views: OrderedDict[Cut, nn.Module] = OrderedDict()
        self._lock = threading.Lock()

    def _usual_alignment(self) -> Alignment:
        """Return the alignment that the ranking's output maps were fitted with, or what suits the device."""
        if (maps := self.ranking.output_maps) is not None:
            neurons, heads = maps.alignment.tolist()
            return Alignment(neurons, heads)
        return Alignment(neurons=8 if device_of(self.model).type == "cpu" else 64)

    def _placed_maps(self) -> OutputMaps | None:
        """Return the ranking's output maps on the model's device and in its precision."""
        if self.ranking.output_maps is None or self.anatomy.output is None:
            return None
        norm = self.model.get_submodule(self.anatomy.output.module)
        return self.ranking.output_maps.to(norm.get_parameter("weight").detach())

    def _rest_bias(self, index: int) -> RestBias:
        site = self.anatomy.sites[index]
        consumer = self.model.get_submodule(site.consumer)
        assert isinstance(consumer, nn.Linear)
        rest = self.ranking.rest[index].reshape(site.units, site.width)[self._orders[index]]
        return RestBias(site, consumer, rest.reshape(-1))

    def at(
        self,
        *,
        sparsity: float | None = None,
        params: float | None = None,
        macs: float | None = None,
        tokens: int | None = None,
        latency_ms: float | None = None,
        throughput: float | None = None,
    ) -> nn.Module:
        """Return the model at a budget, sharing all weights with the full one.

        Built in milliseconds, and cached: asking again is a dictionary look-up. Several sizes can be used at once,
        from several threads. Don't train a view, move it or change its mode: what it shares would change too.

        Args:
            sparsity: Fraction of the prunable parameters to remove, in [0, 1).
            params: Parameters that the whole model may have.
            macs: Multiply-accumulates that one input may cost, at `tokens` tokens.
            tokens: The input length for `macs`; by default the model's native one.
            latency_ms: Milliseconds that one input may take, as measured by `pliant bench --store`.
            throughput: Inputs that there must be in a second, as measured likewise.

        Raises:
            BudgetError: Not exactly one budget is given, no cut can meet it, or no times were measured on this machine.
        """
        asked = (sparsity, params, macs, tokens, latency_ms, throughput)
        try:
            cut = self._asked.get(asked)
        except TypeError:  # a list, say, which has no hash; `plan` says what is allowed
            cut = None
        if cut is None:
            cut = self._plan(Budget.of(*asked))
            if len(self._asked) < _REMEMBERED_BUDGETS:
                self._asked[asked] = cut
        return self.view(cut)

    def view(self, cut: Cut) -> nn.Module:
        """Return the model that keeps what `cut` says, sharing all weights with the full one; see `at`.

        Raises:
            BudgetError: The cut isn't one of this model.
        """
        if not isinstance(cut, Cut):
            raise BudgetError(f"{cut!r:.60} is no Cut. Get one from plan().")
        with self._lock:
            if cut in self._views:
                self._views.move_to_end(cut)
                return self._views[cut]
        made = self._make_view(cut, self._output_maps and self._output_maps.of(cut.widths))
        with self._lock:
            made = self._views.setdefault(cut, made)
            if len(self._views) > _LIVE_VIEWS:
                self._views.popitem(last=False)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle is made of: everything but views, which each Elastic makes for itself."""
        return {**self.__dict__, "_views": OrderedDict(), "_asked": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become a copy."""
        self.__dict__.update(state)
        self._lock = threading.Lock()

    @torch.inference_mode(False)  # a cached view outlives the block in which it was first asked for
    def _make_view(self, cut: Cut, output_map: OutputMap | None) -> nn.Module:
        units = [site.units for site in self.anatomy.sites]
        if not self.anatomy.allows(cut.widths):
            raise BudgetError(f"{cut} doesn't fit this model, whose sites have {units} units. Get one from plan().")
        biases = [table.at(width) for table, width in zip(self._rest_biases, cut.widths, strict=True)]
        return view(self.model, self.anatomy, cut.widths, biases, output_map, self._norms_at(cut))

    def _norms_at(self, cut: Cut) -> Tensor | None:
        """Return what corrects the norms of a cut, on the model's device; None for the full model."""
        sparsity = cost_of(self.anatomy, cut.widths).sparsity
        if self.ranking.norms is None or not sparsity:
            return None
        return self.ranking.norms.at(sparsity).to(device_of(self.model))

    def cut(
        self,
        *,
        sparsity: float | None = None,
        params: float | None = None,
        macs: float | None = None,
        tokens: int | None = None,
        latency_ms: float | None = None,
        throughput: float | None = None,
    ) -> nn.Module:
        """Return a standalone model at a budget, with its own, smaller, contiguous weights.

        The arguments and what they raise are those of `at`.
        """
        cut = self._plan(Budget.of(sparsity, params, macs, tokens, latency_ms, throughput))
        return standalone(self._make_view(cut, self._output_maps and self._output_maps.of(cut.widths)))

    def plan(
        self,
        *,
        sparsity: float | None = None,
        params: float | None = None,
        macs: float | None = None,
        tokens: int | None = None,
        latency_ms: float | None = None,
        throughput: float | None = None,
    ) -> Cut:
        """Return how many units each site keeps at a budget, without making the model.

        The arguments and what they raise are those of `at`.
        """
        return self._plan(Budget.of(sparsity, params, macs, tokens, latency_ms, throughput))

    def _plan(self, budget: Budget) -> Cut:
        if budget.is_timed and self._planner.times is not None:
            self._planner.times.check_machine(described(self.model))
        return self._planner.plan(budget)

    def use_times_(self, times: Times | None) -> None:
        """Let budgets of time rest on these measurements, or allow none; sizes that were handed out stay.

        Args:
            times: The times, as `pliant.speed.times_of` makes them.
        """
        self._planner.times = times
        with self._lock:
            self._asked.clear()

    def cost(self, cut: Cut, tokens: int | None = None) -> Cost:
        """Return what a cut costs, its MACs at `tokens` tokens (by default the model's native length)."""
        return self._planner.cost(cut, tokens)

    def use_output_maps_(self, maps: OutputMaps | None, story: Mapping[str, Any] | None = None) -> None:
        """Let these output maps, or none, follow cuts from now on; views that were handed out before stay as they are.

        Measured times are given up, as they were of other cuts.

        Args:
            maps: The maps, as `pliant.compensation.fit_output_maps` makes them.
            story: How they were made, for the ranking's provenance.

        Raises:
            InputError: They are no OutputMaps.
            ArtefactError: They belong to another model.
        """
        provenance = {name: value for name, value in self.ranking.provenance.items() if name != "output_maps"}
        provenance |= {"output_maps": dict(story)} if story else {}
        ranking = replace(self.ranking, output_maps=maps, provenance=provenance)
        check_output_maps(maps, self.anatomy)
        self.ranking = ranking
        self._output_maps = self._placed_maps()
        self._planner = Planner(self.anatomy, self.ranking, self.alignment)
        with self._lock:
            self._views.clear()
            self._asked.clear()

    def save(self, directory: str | Path) -> None:
        """Write an elastic directory: the full model as a stock checkpoint, in its first order, and the ranking.

        Takes memory for one more copy of the units' weights while it writes. What tokenizer or image processor there
        is must be copied beside it; `pliant rank` does so by itself.

        Args:
            directory: A directory that doesn't exist yet, or is empty.

        Raises:
            InputError: The directory exists, or can't be written; or neither transformers nor `timm.create_model` made
                the model.
        """
        back = [torch.argsort(order) for order in self._orders]
        gained = picked_heads(self.anatomy)
        state: dict[str, Tensor] = self.model.state_dict()
        weights = {name: tensor for name, tensor in state.items() if name not in gained}
        weights.update(reordered(self.model, self.anatomy, back))
        artefacts.save_elastic(directory, self.model, weights, self.ranking)


def _check_types(ranking: Ranking, alignment: Alignment | None) -> None:
    if not isinstance(ranking, Ranking):
        raise InputError(f"{ranking!r:.60} is no Ranking. Pass what pliant.rank or pliant.Ranking.load returned.")
    if alignment is not None and not isinstance(alignment, Alignment):
        raise InputError(f"{alignment!r:.60} is no Alignment. Pass one, such as pliant.Alignment(neurons=8).")


def load(directory: str | Path, *, alignment: Alignment | None = None) -> Elastic:
    """Load an elastic directory that `Elastic.save` or `pliant rank` wrote.

    Args:
        directory: The directory.
        alignment: The multiples that widths snap to; see `Elastic`.

    Raises:
        InputError: There is no such directory.
        ArtefactError: It is no elastic directory, is damaged, or comes from a newer pliant.
    """
    checkpoint, ranking = artefacts.load_elastic(directory)
    elastic = Elastic(checkpoint.model, ranking, alignment=alignment)
    elastic.use_times_(Times.load(directory))
    return elastic
