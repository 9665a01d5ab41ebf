from speed.specimens import pair

from pliant.speed import switching


def test_only_new_sizes_count() -> None:
    _, elastic = pair()
    reachable = {elastic.plan(sparsity=step / 5000 * 0.8) for step in range(5001)}
    found = switching(elastic, count=3, highest=0.8)
    assert found.count == 3
    assert switching(pair().elastic, count=1000, highest=0.8).count <= len(reachable)
    assert 0 < found.cached_p50_ms <= found.cached_p99_ms and 0 < found.built_p50_ms <= found.built_p99_ms


def test_nothing_higher_than_asked_is_drawn() -> None:
    _, elastic = pair()
    assert switching(elastic, count=5, highest=0.0).count == 1
    assert list(elastic._views) == [elastic.plan(sparsity=0.0)]
