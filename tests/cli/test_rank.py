import errno
import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.specimens import inputs, save, save_tokenizer, sentences, text_model, tree
from safetensors.torch import load_file, save_file
from transformers import AutoModel, RobertaConfig, RobertaModel

import pliant as library
from pliant.artefacts import load_elastic
from pliant.cli.rank import _steps

Run = Callable[..., Any]
Refused = Callable[..., str]
SHORT = ("--steps", 2, "--batch-size", 8)


@contextmanager
def disk_full_after(size: int) -> Iterator[None]:
    """No file can grow beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_elastic_directory_is_written(pliant: Run, model: Path, texts: Path, tmp_path: Path) -> None:
    source, out = tree(model), tmp_path / "elastic"
    result = pliant("rank", model, "--data", texts, "--out", out, *SHORT, "--seed", 3)
    assert (result.status, result.err) == (0, "")
    assert f"{out} holds the elastic model. Next: pliant eval {out}" in result.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elastic", "model", "texts.txt"]
    written = tree(out)
    assert {name: written[name] for name in source} == source == tree(model)
    assert set(written) - set(source) == {"pliant.json", "pliant.safetensors"}
    provenance = load_elastic(out)[1].provenance
    assert provenance["ranker"] == "soft-mask" and provenance["seed"] == 3 and provenance["model"] == str(model)
    assert provenance["calibration"]["path"] == str(texts)


def test_transformers_loads_the_full_model(model: Path, elastic: Path) -> None:
    full, loaded = AutoModel.from_pretrained(model), AutoModel.from_pretrained(elastic)
    assert torch.equal(full(**inputs()).last_hidden_state, loaded(**inputs()).last_hidden_state)


def test_json_is_all_that_is_printed(pliant: Run, model: Path, texts: Path, tmp_path: Path) -> None:
    result = pliant("rank", model, "--data", texts, "--out", tmp_path / "e", "--ranker", "fisher", "--json")
    found = json.loads(result.out)
    ranking = load_elastic(tmp_path / "e")[1]
    assert result.err == ""
    assert found["directory"] == str(tmp_path / "e") and found["fingerprint"] == ranking.fingerprint
    assert found["ranker"] == "fisher" == ranking.provenance["ranker"]


def test_quiet_is_silent(pliant: Run, model: Path, texts: Path, tmp_path: Path) -> None:
    result = pliant("rank", model, "--data", texts, "--out", tmp_path / "e", *SHORT, "--quiet")
    assert (result.status, result.out, result.err) == (0, "", "")


def test_one_seed_gives_one_ranking(pliant: Run, model: Path, texts: Path, tmp_path: Path) -> None:
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        assert pliant("rank", model, "--data", texts, "--out", tmp_path / name, *SHORT, "--seed", seed).status == 0
    one, two, three = (load_elastic(tmp_path / name)[1].scores for name in ("one", "two", "three"))
    assert torch.equal(one, two) and not torch.equal(one, three)


def test_names_with_spaces_brackets_and_unicode(pliant: Run, model: Path, texts: Path, tmp_path: Path) -> None:
    strange = Path(shutil.move(model, tmp_path / "mein Modell ü"))
    data = Path(shutil.move(texts, tmp_path / "文 texts.txt"))
    out = tmp_path / "deep" / "elastic [b] :smile: é [" / "[red]x"
    result = pliant("rank", strange, "--data", data, "--out", out, *SHORT)
    assert result.status == 0 and f"{out} holds the elastic model" in result.out
    assert pliant("eval", out, "--data", data, "--sparsity", "0.5", "--quiet").status == 0


def test_an_elastic_directory_can_be_ranked_again(pliant: Run, elastic: Path, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "again"
    assert pliant("rank", elastic, "--data", texts, "--out", out, "--ranker", "random").status == 0
    assert load_elastic(out)[1].provenance["ranker"] == "random"


def test_only_what_belongs_to_the_checkpoint_is_copied(pliant: Run, model: Path, texts: Path) -> None:
    for folder in ("1_Pooling", "checkpoint-5", ".git", "onnx"):
        (model / folder).mkdir()
        (model / folder / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (model / "modules.json").write_text('[{"idx": 0, "path": ""}, {"idx": 1, "path": "1_Pooling"}]')
    (model / "optimizer.pt").write_bytes(b"pickle")
    assert pliant("rank", model, "--data", texts, "--out", model / "elastic", *SHORT).status == 0
    extra = {"pliant.json", "pliant.safetensors", "modules.json", "1_Pooling", "1_Pooling/config.json"}
    original = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert set(tree(model / "elastic")) == original | extra
    assert not (model / "elastic.partial").exists()


def test_texts_longer_than_the_positions(pliant: Run, tmp_path: Path) -> None:
    # RoBERTa's positions begin after the padding index: of 20, only 18 can be used.
    sizes: dict[str, Any] = dict(
        vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    config = RobertaConfig(**sizes, max_position_embeddings=20, pad_token_id=1)
    save(RobertaModel(config), tmp_path / "roberta")
    save_tokenizer(tmp_path / "roberta")
    (tmp_path / "long.txt").write_text("\n".join(["the cat sat on a red mat " * 9] * 8))
    options = ("--max-tokens", 1000, "--batch-size", 4, "--ranker", "fisher")
    result = pliant("rank", tmp_path / "roberta", "--data", tmp_path / "long.txt", "--out", tmp_path / "e", *options)
    assert result.status == 0, result.err


def test_images(pliant: Run, vision_model: Path, pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "elastic"
    result = pliant("rank", vision_model, "--data", pictures, "--out", out, "--steps", 2, "--batch-size", 4)
    assert result.status == 0, result.err
    assert library.load(out).at(sparsity=0.5)(pixel_values=torch.rand(1, 3, 24, 24)).last_hidden_state.shape[0] == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--ranker", "best"), "Unknown ranker 'best'. Allowed: soft-mask, fisher"),
        (("--rest", "max"), "Unknown --rest 'max'. Allowed: mean, zero"),
        (("--compensation", "none"), "Unknown --compensation 'none'. Allowed: measured, learned"),
        (("--compensation", "learned", "--rest", "zero"), "With rest='zero' nothing makes up"),
        (("--preset", "slow"), "Unknown preset 'slow'. Allowed: fast, default, best"),
        (("--pooling", "max"), "Unknown pooling 'max'. Allowed: cls, mean"),
        (("--steps", 0), "steps=0 is too few"),
        (("--steps", -1), "steps=-1 is too few"),
        (("--inputs", 0), "--inputs 0 is too small"),
        (("--inputs", -5), "--inputs -5 is too small"),
        (("--batch-size", 0), "--batch-size 0 is too small"),
        (("--batch-size", -1), "--batch-size -1 is too small"),
        (("--max-tokens", 0), "--max-tokens 0 is too small"),
        (("--batch-size", 33), "32 texts do not fill one batch of 33"),
        (("--inputs", 7, "--batch-size", 8), "7 texts do not fill one batch of 8"),
        (("--batch-size", 32), "1 calibration batches are too few: at least 2"),
    ],
)
def test_options_with_a_wrong_value(
    refused: Refused, model: Path, texts: Path, tmp_path: Path, options: tuple[object, ...], named: str
) -> None:
    assert named in refused("rank", model, "--data", texts, "--out", tmp_path / "new" / "e", *options)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "is empty or blank"),
        (b" \n\t\n\n", "is empty or blank"),
        (b"one\0two\n" * 50, "is binary"),
        (bytes(range(256)) * 9, "is binary"),
        ("größer\n".encode("latin-1") * 50, "is not UTF-8"),
        ("text\n".encode("utf-16") * 50, "is binary (it has NUL bytes), or UTF-16"),
        (b"only\nthree\ntexts\n", "3 texts do not fill one batch of 16"),
    ],
)
def test_texts_that_are_none(refused: Refused, model: Path, tmp_path: Path, body: bytes, named: str) -> None:
    (tmp_path / "data.txt").write_bytes(body)
    assert named in refused("rank", model, "--data", tmp_path / "data.txt", "--out", tmp_path / "e")


def test_data_that_is_elsewhere_or_of_another_kind(
    refused: Refused, model: Path, vision_model: Path, texts: Path, pictures: Path, tmp_path: Path
) -> None:
    out = ("--out", tmp_path / "e")
    assert "does not exist" in refused("rank", model, "--data", tmp_path / "nowhere.txt", *out)
    assert "can't be read" in refused("rank", model, "--data", "x" * 300, *out)
    assert "has no text files" in refused("rank", model, "--data", pictures, *out)
    assert "is a file. Give the folder" in refused("rank", vision_model, "--data", texts, *out)
    assert "has no images" in refused("rank", vision_model, "--data", model, *out)
    too_many = ("--batch-size", 16)
    assert "12 images do not fill one batch of 16" in refused("rank", vision_model, "--data", pictures, *out, *too_many)


def test_a_corrupt_image(refused: Refused, vision_model: Path, pictures: Path, tmp_path: Path) -> None:
    damaged = pictures / "3.png"
    damaged.write_bytes(damaged.read_bytes()[:300])
    options = ("--out", tmp_path / "e", "--steps", 1, "--batch-size", 3)
    assert str(damaged) in refused("rank", vision_model, "--data", pictures, *options)


def test_no_such_model_and_no_tokenizer(
    refused: Refused, model: Path, vision_model: Path, texts: Path, pictures: Path, tmp_path: Path
) -> None:
    assert "No model at" in refused("rank", tmp_path / "nowhere", "--data", texts, "--out", tmp_path / "e")
    for file in model.glob("tokenizer*"):
        file.unlink()
    assert "has no tokenizer" in refused("rank", model, "--data", texts, "--out", tmp_path / "e")
    (vision_model / "preprocessor_config.json").unlink()
    message = refused("rank", vision_model, "--data", pictures, "--out", tmp_path / "e", "--batch-size", 4)
    assert "preprocessor_config.json" in message


@pytest.mark.parametrize("size", [0, 100])
def test_a_damaged_tokenizer(refused: Refused, model: Path, texts: Path, tmp_path: Path, size: int) -> None:
    file = model / "tokenizer.json"
    file.write_bytes(file.read_bytes()[:size])
    assert "Can't read the model" in refused("rank", model, "--data", texts, "--out", tmp_path / "e")


@pytest.mark.parametrize("broken", ["intermediate.dense", "output.LayerNorm"])
@pytest.mark.parametrize("ranker", ["soft-mask", "taylor"])
def test_weights_that_are_not_finite(
    refused: Refused, model: Path, texts: Path, tmp_path: Path, broken: str, ranker: str
) -> None:
    """The second breaks the model's output alone: what its last consumers read is as it should be."""
    weights = load_file(model / "model.safetensors")
    weights[[name for name in weights if name.endswith(f"{broken}.weight")][-1]].mul_(float("nan"))
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    message = refused("rank", model, "--data", texts, "--out", tmp_path / "e", "--ranker", ranker, "--batch-size", 8)
    assert "not finite" in message


def test_what_is_at_out_stays(refused: Refused, model: Path, texts: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for taken in ("full", "texts.txt", "model", "link"):
        message = refused("rank", model, "--data", texts, "--out", tmp_path / taken)
        assert "already exists and is left as it is" in message


def test_an_empty_directory_may_be_at_out(pliant: Run, model: Path, texts: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert pliant("rank", model, "--data", texts, "--out", tmp_path / "empty", *SHORT).status == 0
    assert load_elastic(tmp_path / "empty")[1].scores.isfinite().all()


@pytest.mark.parametrize("where", ["texts.txt/below", "/proc/nowhere/e", "n" * 300, "n" * 250, ".", "", "/", ".."])
def test_no_place_to_write(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, model: Path, texts: Path, tmp_path: Path, where: str
) -> None:
    (tmp_path / "inside" / "empty").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "inside" / "empty")
    out = tmp_path / where if where.startswith(("texts", "n")) else where
    refused("rank", model, "--data", texts, "--out", out, *SHORT)


def test_a_full_disk_at_the_end(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, model: Path, texts: Path, tmp_path: Path
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pliant.artefacts.shutil.copyfile", full)
    message = refused("rank", model, "--data", texts, "--out", tmp_path / "e", "--ranker", "random")
    assert "No space left on device" in message and str(tmp_path / "e") in message


def test_a_full_disk_in_the_search(refused: Refused, model: Path, texts: Path, tmp_path: Path) -> None:
    with disk_full_after(1000):
        message = refused("rank", model, "--data", texts, "--out", tmp_path / "e", *SHORT)
    assert "search.safetensors" in message and "room" in message


def test_after_a_full_disk_nothing_is_lost(pliant: Run, model: Path, texts: Path, tmp_path: Path) -> None:
    command = ("rank", model, "--data", texts, *SHORT)
    with disk_full_after(50_000):
        failed = pliant(*command, "--out", tmp_path / "e")
    assert failed.status == 2 and "Can't write" in failed.err and not (tmp_path / "e").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.partial", "model", "texts.txt"]
    assert pliant(*command, "--out", tmp_path / "e", "--resume").status == 0
    assert pliant(*command, "--out", tmp_path / "straight").status == 0
    resumed, straight = (load_elastic(tmp_path / name)[1] for name in ("e", "straight"))
    assert torch.equal(resumed.scores, straight.scores)


def test_an_unfinished_ranking_of_something_else(
    pliant: Run, refused: Refused, model: Path, texts: Path, tmp_path: Path
) -> None:
    out = ("--out", tmp_path / "e")
    with disk_full_after(50_000):
        pliant("rank", model, "--data", texts, *out, *SHORT)
    assert "--resume" in refused("rank", model, "--data", texts, *out, *SHORT)
    resumed = ("--data", texts, *out, *SHORT, "--resume")
    assert "another search" in refused("rank", model, *resumed, "--seed", 1)
    assert "another search" in refused("rank", model, *resumed, "--rest", "zero")
    assert "another search" in refused("rank", text_model(tmp_path / "other", seed=1), *resumed)
    (tmp_path / "more.txt").write_text("\n".join(sentences(32, seed=1)))
    assert "another search" in refused("rank", model, *resumed, "--data", tmp_path / "more.txt")
    search = tmp_path / "e.partial" / "search.safetensors"
    search.write_bytes(search.read_bytes()[:-10])
    assert "is damaged" in refused("rank", model, *resumed)


def test_two_rankings_into_one_place(refused: Refused, model: Path, texts: Path, tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "e.partial").mkdir()
    other = os.open(tmp_path / "e.partial", os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert "Another ranking" in refused("rank", model, "--data", texts, "--out", tmp_path / "e", "--steps", 1)
    finally:
        os.close(other)


def test_what_a_ranking_should_keep(pliant: Run, refused: Refused, vision_model: Path, pictures: Path) -> None:
    command = ("rank", vision_model, "--data", pictures, "--batch-size", 4, "--steps", 1, "--json")
    names = {}
    for objective in ((), ("--objective", "pooled+tokens"), ("--objective", "tokens")):
        out = pictures.with_name("-".join(("out", *objective)))
        found = json.loads(pliant(*command, "--out", out, *objective).out)
        names[objective[1:]] = (found["objective"], found.get("objective_wanted"))
    assert names == {
        (): ("distillation of cls", None),
        ("pooled+tokens",): ("distillation of cls and tokens", "pooled+tokens"),
        ("tokens",): ("distillation of tokens", "tokens"),
    }
    wrong = refused(*command, "--out", pictures.with_name("new"), "--objective", "task")
    assert "Unknown --objective 'task'. Allowed: pooled, tokens, pooled+tokens" in wrong


def test_image_sizes(
    pliant: Run, refused: Refused, vision_model: Path, pictures: Path, model: Path, texts: Path
) -> None:
    command = ("rank", vision_model, "--data", pictures, "--batch-size", 4, "--steps", 1)
    out = ("--out", pictures.with_name("out"))
    # This ViT's positions are for images of 24 pixels.
    assert "can't take the calibration batch" in refused(*command, *out, "--image-size", 16)
    assert "--image-size 0 is too small" in refused(*command, *out, "--image-size", 0)
    for size in (1, 100_000):
        assert f"--image-size {size} is out of range" in refused(*command, *out, "--image-size", size)
    assert "reads texts" in refused("rank", model, "--data", texts, *out, "--image-size", 16)
    assert pliant(*command, *out, "--image-size", 24).status == 0


def test_progress_knows_of_settling() -> None:
    """All steps that a preset takes, so that the bar doesn't run over."""
    assert [_steps("default", None), _steps("default", 9), _steps("best", None), _steps("best", 9)] == [
        240,
        9,
        480,
        249,
    ]
    # The library says what is wrong with it.
    assert _steps("slow", None) == 240
