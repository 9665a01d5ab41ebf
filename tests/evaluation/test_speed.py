import io

import pytest
from rich.console import Console
from speed.specimens import measured

from pliant.evaluation.speed import speed_panels, speed_table
from pliant.speed import Speed


def text_of(speed: Speed, width: int = 80) -> str:
    output = io.StringIO()
    Console(file=output, width=width, color_system=None).print(speed_table(speed))
    return output.getvalue().replace("\N{NO-BREAK SPACE}", " ")


def test_one_table_for_each_batch_size_and_one_row_for_each_model() -> None:
    lines = text_of(measured()).splitlines()
    assert [line.split()[:3] for line in lines if "turns" in line] == [["batches", "of", "1,"], ["batches", "of", "8,"]]
    rows = [line.split() for line in lines if line.strip().startswith(("untouched", "view", "cut"))]
    assert len(rows) == 2 * 7
    assert rows[3] == ["view", "50", "%", "5.00", "6.00", "200", "2.00×", "1.67×", "120", "%", "1.00", "kB"]
    assert rows[7] == ["untouched", "80.00", "96.00", "100", "8.00", "kB"]
    assert max(map(len, lines)) <= 80


def test_how_it_was_measured_is_said() -> None:
    text = " ".join(text_of(measured()).split())
    assert "all-MiniLM-L6-v2, ranked by soft-mask, on A Processor (cpu, 2 threads), float32" in text
    assert "inputs of 128 tokens" in text and "100 turns" in text
    assert "used before takes 0.0020 ms (p99 0.0040), to a new one 0.80 ms (p99 1.60); 300 sizes" in text
    gpu = text_of(measured(device="cuda", image_size=(224, 112), switching=None, threads=1))
    assert "threads" not in gpu and "images of 224 × 112 pixels" in " ".join(gpu.split()) and "Changing" not in gpu


def test_speed_ups_and_the_ratio_of_macs_share_a_chart() -> None:
    speedup, latency = speed_panels(measured())
    assert [(line.label, line.role) for line in speedup.lines] == [
        ("ratio of MACs", "second"),
        ("8, cut", "other"),
        ("batches of 8", "other"),
        ("1, cut", "other"),
        ("batches of 1", "main"),
    ]
    assert len({line.color for line in speedup.lines}) == 5
    assert speedup.lines[-1].points == tuple((size, pytest.approx(1 / (1 - size))) for size in (0.0, 0.25, 0.5))
    assert latency.reference == 10 and latency.lines[0].points[2] == (0.5, 5.0)
    assert latency.lines[0].band[2] == (0.5, 5.0, 6.0)


def test_views_alone_have_one_line_for_each_batch_size() -> None:
    assert len(speed_panels(measured(cuts=False))[0].lines) == 3
