"""Prompts and pooling: what the checkpoint says, what the user says, and which of them counts."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.specimens import edit_json, inputs, sentences, tree
from transformers import AutoModel

import pliant as library
from pliant.artefacts import load_elastic, write_elastic

Run = Callable[..., Any]
Refused = Callable[..., str]
QUICK = ("--ranker", "fisher", "--batch-size", 8)
# Words that the tiny tokenizer knows.
PROMPTS = {"query": "big cat ", "document": "small mat "}


def say(model: Path, **about: Any) -> None:
    (model / "config_sentence_transformers.json").write_text(json.dumps(about))


def pool_by(model: Path, **config: Any) -> None:
    (model / "1_Pooling").mkdir(exist_ok=True)
    (model / "1_Pooling" / "config.json").write_text(json.dumps(config))
    (model / "modules.json").write_text(
        '[{"path": "", "type": "st.Transformer"}, {"path": "1_Pooling", "type": "st.Pooling"}]'
    )


@pytest.fixture
def scores(pliant: Run, tmp_path: Path) -> Callable[..., torch.Tensor]:
    """The scores that a ranking with these options has."""

    def run(name: str, *arguments: object) -> torch.Tensor:
        result = pliant("rank", *arguments, "--out", tmp_path / name, *QUICK)
        assert result.status == 0, result.err
        return load_elastic(tmp_path / name)[1].scores

    return run


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    file = tmp_path / "pairs.csv"
    with file.open("w", newline="") as opened:
        rows = zip(sentences(12, seed=1), sentences(12, seed=2), strict=True)
        csv.writer(opened).writerows([("q", "d"), *rows])
    return file


def prefixed(source: Path, *prompts: str) -> Path:
    """A copy of a file of texts with the prompts written into it, in turn."""
    lines = source.read_text().splitlines()
    file = source.with_name("prefixed.txt")
    file.write_text("\n".join(prompts[index % len(prompts)] + line for index, line in enumerate(lines)))
    return file


def test_one_prompt_is_as_if_written_into_the_texts(scores: Any, model: Path, texts: Path, tmp_path: Path) -> None:
    plain = ("--data", texts, "--noise", 0)
    asked = scores("asked", model, *plain, "--prompt", "big cat ")
    written = scores("written", model, "--data", prefixed(texts, "big cat "), "--noise", 0)
    assert torch.equal(asked, written)
    assert not torch.equal(asked, scores("without", model, *plain))
    used = load_elastic(tmp_path / "asked")[1].provenance["calibration"]
    assert (used["query_prompt"], used["document_prompt"]) == ("big cat ", "big cat ")


def test_the_prompts_of_the_checkpoint_are_used(scores: Any, model: Path, texts: Path, tmp_path: Path) -> None:
    both = ("--query-prompt", PROMPTS["query"], "--document-prompt", PROMPTS["document"])
    asked = scores("asked", model, "--data", texts, *both)
    without = scores("without", model, "--data", texts)
    say(model, prompts=PROMPTS)
    own = scores("own", model, "--data", texts)
    assert torch.equal(own, asked) and not torch.equal(own, without)
    assert torch.equal(scores("none", model, "--data", texts, "--prompt", ""), without)
    used = load_elastic(tmp_path / "own")[1].provenance["calibration"]
    assert (used["query_prompt"], used["document_prompt"]) == tuple(PROMPTS.values())
    one = scores("one", model, "--data", texts, "--query-prompt", "")
    assert not any(torch.equal(one, other) for other in (own, without))


def curve(pliant: Run, elastic: Path, data: Path, *options: object) -> Any:
    columns = ("--query-column", "q", "--document-column", "d") if data.suffix == ".csv" else ()
    result = pliant("eval", elastic, "--data", data, *columns, *options, "--sparsity", "0,0.5", "--json")
    assert result.status == 0, result.err
    return {**json.loads(result.out)["curves"][0], "task": ""}


def test_queries_and_documents_have_their_own(
    pliant: Run, scores: Any, model: Path, texts: Path, pairs: Path, tmp_path: Path
) -> None:
    say(model, prompts=PROMPTS)
    scores("e", model, "--data", texts)
    elastic = tmp_path / "e"
    own = curve(pliant, elastic, pairs)
    written = tmp_path / "written.csv"
    with pairs.open(newline="") as source, written.open("w", newline="") as target:
        head, *rows = csv.reader(source)
        texts_of = [(PROMPTS["query"] + query, PROMPTS["document"] + document) for query, document in rows]
        csv.writer(target).writerows([head, *texts_of])
    assert own == curve(pliant, elastic, written, "--prompt", "")
    assert own != curve(pliant, elastic, pairs, "--prompt", "")
    assert own != curve(pliant, elastic, pairs, "--document-prompt", "")
    # Texts that are neither get both in turn, in the order in which they are drawn.
    assert curve(pliant, elastic, texts) != curve(pliant, elastic, texts, "--prompt", "")


def test_the_ranking_s_prompts_count_before_the_checkpoint_s(
    pliant: Run, scores: Any, model: Path, texts: Path, pairs: Path, tmp_path: Path
) -> None:
    say(model, prompts=PROMPTS)
    scores("e", model, "--data", texts, "--prompt", "")
    usual, off, on = (curve(pliant, tmp_path / "e", pairs, *options) for options in ((), ("--prompt", ""), both()))
    assert usual == off != on


def both() -> tuple[str, ...]:
    return "--query-prompt", PROMPTS["query"], "--document-prompt", PROMPTS["document"]


def test_what_the_library_ranked_takes_the_checkpoint_s(
    pliant: Run, model: Path, texts: Path, pairs: Path, tmp_path: Path
) -> None:
    loaded = AutoModel.from_pretrained(model)
    library.Elastic(loaded, library.rank(loaded, [inputs(), inputs()], ranker="random")).save(tmp_path / "e")
    for file in model.glob("tokenizer*"):
        (tmp_path / "e" / file.name).write_bytes(file.read_bytes())
    without = curve(pliant, tmp_path / "e", pairs)
    say(tmp_path / "e", prompts=PROMPTS)
    assert curve(pliant, tmp_path / "e", pairs) == curve(pliant, tmp_path / "e", pairs, *both()) != without


def test_rivals_are_ranked_with_the_same_prompts(pliant: Run, scores: Any, model: Path, texts: Path) -> None:
    scores("e", model, "--data", texts, *both())
    options = ("--against", "fisher", "--sparsity", "0.5", "--json")
    result = pliant("eval", model.with_name("e"), "--data", texts, *options)
    first, second = json.loads(result.out)["curves"]
    assert first == second


def test_images_have_none(refused: Refused, vision_model: Path, pictures: Path, tmp_path: Path) -> None:
    command = ("rank", vision_model, "--data", pictures, "--out", tmp_path / "e")
    for option in ("--prompt", "--query-prompt", "--document-prompt"):
        assert "reads images, which have no prompts" in refused(*command, option, "a photo of ")


def test_a_card_that_speaks_of_prompts(pliant: Run, model: Path, texts: Path, tmp_path: Path) -> None:
    (model / "README.md").write_text('Each text should start with "query: " or "passage: ".')
    assert 'Note: Its model card speaks of texts that begin with "query: "' in pliant("describe", model).out
    command = ("rank", model, "--data", texts, *QUICK)
    assert "Note: Its model card" in pliant(*command, "--out", tmp_path / "a").out
    assert pliant(*command, "--out", tmp_path / "b", "--quiet").out == ""
    assert json.loads(pliant(*command, "--out", tmp_path / "c", "--json").out)["ranker"] == "fisher"


def test_a_pooling_without_the_prompt(
    pliant: Run, refused: Refused, model: Path, texts: Path, pairs: Path, tmp_path: Path
) -> None:
    pool_by(model, pooling_mode="mean", include_prompt=False)
    command = ("rank", model, "--data", texts, *QUICK)
    assert pliant(*command, "--out", tmp_path / "plain").status == 0
    say(model, prompts=PROMPTS)
    message = refused(*command, "--out", tmp_path / "e")
    assert "leaves its prompt's tokens out of the pooling" in message and "--prompt ''" in message
    assert "include_prompt" in refused(*command, "--out", tmp_path / "e", "--pooling", "cls")
    assert pliant(*command, "--out", tmp_path / "last", "--pooling", "last").status == 0
    assert pliant(*command, "--out", tmp_path / "off", "--prompt", "").status == 0
    columns = ("--query-column", "q", "--document-column", "d")
    assert "include_prompt" in refused("eval", tmp_path / "off", "--data", pairs, *columns, "--prompt", "the ")


def test_describe_says_how_the_model_is_used(pliant: Run, model: Path) -> None:
    plain = json.loads(pliant("describe", model, "--json").out)
    assert (plain["pooling"], plain["pooling_source"], plain["dtype"]) == ("mean", "the family's", "float32")
    assert (plain["prompts"], plain["notes"]) == ({"query": "", "document": ""}, [])
    pool_by(model, pooling_mode_cls_token=True)
    say(model, prompts={"query": "big cat\n"})
    kinds = ("Transformer", "Pooling", "Dense", "Normalize")
    modules = [{"type": f"st.{kind}", "path": f"{index}_{kind}" * (index > 0)} for index, kind in enumerate(kinds)]
    (model / "modules.json").write_text(json.dumps(modules))
    found = json.loads(pliant("describe", model, "--json").out)
    assert (found["pooling"], found["pooling_source"]) == ("cls", "1_Pooling/config.json")
    assert found["prompts"]["query"] == "big cat\n" and "2_Dense" in found["notes"][0]
    shown = pliant("describe", model).out
    assert "pooling cls (1_Pooling/config.json), objective pooled, float32" in shown
    assert "before a query: 'big cat\\n'" in shown and "Note: Its sentence-transformers pipeline" in shown


def test_a_pooling_that_is_not_known(pliant: Run, refused: Refused, model: Path, texts: Path, tmp_path: Path) -> None:
    pool_by(model, pooling_mode="weightedmean")
    found = json.loads(pliant("describe", model, "--json").out)
    assert found["pooling"] == "mean"
    assert "doesn't know its own, weightedmean, which 1_Pooling/config.json names" in found["pooling_source"]
    command = ("rank", model, "--data", texts, "--out", tmp_path / "e", *QUICK)
    message = refused(*command)
    assert "pools by weightedmean, says 1_Pooling/config.json" in message and "--pooling mean" in message
    assert pliant(*command, "--pooling", "last").status == 0
    # From now on, what it was ranked for counts.
    assert json.loads(pliant("describe", tmp_path / "e", "--json").out)["pooling_source"] == "pliant.json"
    assert pliant("eval", tmp_path / "e", "--data", texts, "--sparsity", "0.5", "--quiet").status == 0


def test_eval_takes_the_ranking_s_pooling_or_another(
    pliant: Run, scores: Any, refused: Refused, model: Path, texts: Path, tmp_path: Path
) -> None:
    scores("e", model, "--data", texts, "--pooling", "cls")
    before = tree(tmp_path / "e")
    (tmp_path / "one.txt").write_text("the cat sat\n")
    loaded = library.load(tmp_path / "e")
    tokens = {"input_ids": torch.tensor([[2, 5, 7, 9, 3]])}
    full, half = (loaded.at(sparsity=size)(**tokens).last_hidden_state for size in (0.0, 0.5))
    for options, place in (((), 0), (("--pooling", "last"), -1)):
        point = curve(pliant, tmp_path / "e", tmp_path / "one.txt", *options)["points"][1]
        expected = torch.cosine_similarity(full[:, place], half[:, place]).item()
        assert point["cosine"] == pytest.approx(expected, abs=1e-5)
    command = ("eval", tmp_path / "e", "--data", texts, "--sparsity", "0.5", "--pooling")
    assert "Unknown pooling 'max'" in refused(*command, "max")
    assert "'tokens'" in refused(*command, "tokens")
    assert tree(tmp_path / "e") == before


def test_older_provenance_has_no_prompts(pliant: Run, elastic: Path, texts: Path) -> None:
    """A ranking that knows nothing of prompts is measured with those of the checkpoint."""
    checkpoint, ranking = load_elastic(elastic)
    used = {key: value for key, value in ranking.provenance["calibration"].items() if "prompt" not in key}
    old = replace(ranking, provenance={**ranking.provenance, "calibration": used})
    write_elastic(elastic.with_name("old"), checkpoint, old)
    say(elastic.with_name("old"), prompts=PROMPTS)
    result = pliant("eval", elastic.with_name("old"), "--data", texts, "--sparsity", "0.5", "--against", "random", "-q")
    assert result.status == 0, result.err


def test_prompts_that_are_no_texts(pliant: Run, model: Path) -> None:
    say(model, prompts=5, default_prompt_name={"a": 1})
    assert json.loads(pliant("describe", model, "--json").out)["prompts"] == {"query": "", "document": ""}
    edit_json(model / "config_sentence_transformers.json", prompts={"query": None})
    assert pliant("describe", model).status == 0


def test_a_pooling_that_is_none(refused: Refused, model: Path, texts: Path, tmp_path: Path) -> None:
    for name in ("", "MEAN", "max"):
        command = ("rank", model, "--data", texts, "--out", tmp_path / "e", "--pooling", name)
        assert f"Unknown pooling {name!r}. Allowed: cls, mean" in refused(*command)


def test_a_pooler_without_weights(
    pliant: Run, refused: Refused, vision_model: Path, pictures: Path, tmp_path: Path
) -> None:
    """transformers makes one of random weights, another one each time."""
    command = ("rank", vision_model, "--data", pictures, "--out", tmp_path / "e", "--ranker", "magnitude")
    message = refused(*command, "--batch-size", 4, "--pooling", "pooler")
    assert "has no weights for its pooler" in message and "--pooling: cls, mean" in message
    assert pliant(*command, "--batch-size", 4).status == 0
    assert "no weights for its pooler" in refused("eval", tmp_path / "e", "--data", pictures, "--pooling", "pooler")
