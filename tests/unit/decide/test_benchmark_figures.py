import numpy as np
from benchmarks.decide.figures import ALPHAS, TARGETS, Figures, tables
from tests.unit.decide.test_thresholds import drawn, with_lists


def test_the_tables_of_the_benchmark_have_a_row_for_each_scorer_and_way():
    rng = np.random.default_rng(0)
    seen = {
        ("one", "train"): drawn(300, rng),
        ("one", "test"): drawn(300, rng),
        ("two", "test"): with_lists(300, rng),
    }
    figures = Figures.of(seen, halves=2, rng=rng)
    text = tables({"made": figures}, TARGETS, ALPHAS)
    assert [line.split("|")[1].strip() for line in text.splitlines() if "| made |" in line][:6] == [
        *("own", "others", "half"),
        *("own", "others", "half"),
    ]
    assert "nan" not in text
    assert {row.way for row in figures.bounds} == {"own", "others", "half"}
