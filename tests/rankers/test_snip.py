import pytest
import torch
from contracts.calibrations import KINDS, calibration_of
from contracts.models import by_name

from pliant.batches import forward
from pliant.objectives import Callback
from pliant.rankers import snip
from pliant.rankers.calibration import Calibration


@pytest.mark.parametrize("name", KINDS)
def test_formula(name: str) -> None:
    """Of the whole model at once: |g w| and w² of each weight, then sums over the weights of each unit."""
    calibration = calibration_of(by_name(name), number=2)
    generator, model = calibration.generator(salt=5), calibration.model
    named = dict(model.named_parameters())
    sensitive = {key: torch.zeros_like(weight) for key, weight in named.items()}
    for batch in calibration.observed():
        model.requires_grad_(True)
        probe = calibration.objective.probe(forward(model, batch), batch, generator)
        gradients = torch.autograd.grad(probe, list(named.values()), allow_unused=True)
        model.requires_grad_(False)
        for (key, weight), gradient in zip(named.items(), gradients, strict=True):
            if gradient is not None:
                sensitive[key] += (weight * gradient).abs()
    sums = []
    for values in (sensitive, {key: weight**2 for key, weight in named.items()}):
        of_units = []
        for site in calibration.anatomy.sites:
            parts = [values[f"{site.consumer}.weight"].reshape(site.outputs, site.units, -1).transpose(0, 1)]
            for producer in site.producers:
                rows = values[f"{producer.module}.weight"].reshape(producer.parts, site.units, producer.rows, -1)
                parts.append(rows.transpose(0, 1))
            of_units.append(sum(part.flatten(1).double().sum(dim=1) for part in parts))
        sums.append(torch.cat(of_units))
    expected = (sums[0] / sums[0].sum() + 0.3 * sums[1] / sums[1].sum()) / calibration.costs
    torch.testing.assert_close(snip.scores(calibration), expected, rtol=1e-4, atol=0)


def test_the_scale_of_the_objective_does_not_count() -> None:
    calibration = calibration_of(by_name("bert"))
    found = []
    for scale in (1.0, 1e-3):
        objective = Callback(lambda outputs, batch, scale=scale: scale * outputs["last_hidden_state"].square().sum())
        found.append(snip.scores(Calibration(**{**vars(calibration), "objective": objective})))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=0)
