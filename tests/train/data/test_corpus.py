from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import pairs, unit  # noqa: E402

from toolheads.errors import ConfigError, ShapeError  # noqa: E402
from toolheads_train.data.corpus import Lists, Source, build_corpus, csr_rows  # noqa: E402
from toolheads_train.errors import NotFiniteError  # noqa: E402

pytestmark = pytest.mark.train


def known(corpus, row):
    listed = corpus.known.padded(torch.tensor([row]))[0].tolist()
    return {group for group in listed if group >= 0}


def source(name, positives, groups, **more):
    q, n = len(positives), len(groups)
    return Source(name, unit(q), unit(n, seed=1), groups, positives, **more)


def test_rows_of_the_second_source_follow_those_of_the_first():
    corpus = build_corpus(
        [source("a", [[0], [1]], ["x", "y"]), source("b", [[1, 0]], ["z", "w"], negatives=[[0]])]
    )
    assert corpus.positives.padded(torch.tensor([0, 2])).tolist() == [[0, -1], [3, 2]]
    assert corpus.negatives.padded(torch.tensor([0, 2])).tolist() == [[-1], [2]]
    assert (corpus.source_offsets, corpus.names) == ((0, 2, 3), ("a", "b"))


def test_tools_of_equal_text_share_a_group_across_sources():
    corpus = build_corpus([source("a", [[0]], ["x", "y"]), source("b", [[0]], ["y", "x"])])
    assert corpus.groups.tolist() == [0, 1, 1, 0]
    assert corpus.group_count == 2


def test_equal_queries_know_each_others_tools():
    one = source("a", [[0], [1], [1]], ["x", "y"], same_query=["q", "r", "q"])
    two = source("b", [[0]], ["z"], same_query=["q"])
    corpus = build_corpus([one, two])
    assert known(corpus, 0) == {0, 1, 2}
    assert known(corpus, 1) == {1}
    assert known(corpus, 3) == {0, 1, 2}


def test_teacher_scores_stay_beside_their_rows():
    corpus = build_corpus(
        [source("a", [[0], [1]], ["x", "y"], teacher_rows=[[1], []], teacher_scores=[[0.25], []])]
    )
    assert corpus.teacher.padded(torch.tensor([0])).tolist() == [[1]]
    assert corpus.teacher_scores.tolist() == [0.25]


def test_each_entry_of_a_list_is_drawn_alike():
    lists = Lists.of([[3], [], [5, 6, 7]])
    rows = torch.full((3000,), 2)
    drawn = lists.drawn(rows, torch.rand(3000, generator=torch.Generator().manual_seed(0)))
    counts = np.bincount(drawn.numpy(), minlength=8)[5:]
    assert counts.min() > 900
    assert lists.drawn(torch.tensor([1, 0]), torch.tensor([0.5, 0.999999999])).tolist() == [-1, 3]


def test_embeddings_are_stored_in_the_precision_that_is_asked_for():
    corpus = build_corpus([pairs(4)]).to("cpu", torch.bfloat16)
    assert (corpus.queries.dtype, corpus.tools.dtype) == (torch.bfloat16, torch.bfloat16)
    assert corpus.groups.dtype == torch.int64


def test_an_embedding_that_is_not_finite_is_refused_with_its_query():
    queries = unit(3)
    queries[1, 0] = np.nan
    bad = replace(
        source("a", [[0], [0], [0]], ["x"]), queries=queries, query_ids=["q0", "q1", "q2"]
    )
    with pytest.raises(
        NotFiniteError, match="queries must be finite, got NaN or inf in 1 rows: q1"
    ):
        build_corpus([bad]).check_finite()


@pytest.mark.parametrize(
    ("broken", "match"),
    [
        ({"positives": [[0], []]}, "must have a relevant tool, got none for row 1"),
        ({"positives": [[0], [2]]}, r"positives of a must be rows in \[0, 2\), got 0 to 2"),
        ({"positives": [[0]]}, "positives of a must have 2 entries, got 1"),
        ({"groups": ["x"]}, "groups of a must have 2 entries, got 1"),
        ({"query_ids": ["q"]}, "query_ids of a must have 2 entries, got 1"),
        ({"negatives": [[0], [-1]]}, "negatives of a must be rows"),
    ],
)
def test_a_source_that_does_not_fit_itself_is_refused(broken, match):
    good = source("a", [[0], [1]], ["x", "y"])
    with pytest.raises(ShapeError, match=match):
        build_corpus([replace(good, **broken)])


def test_sources_of_two_widths_are_refused():
    other = Source("b", unit(1, 8), unit(1, 8), ["x"], [[0]])
    with pytest.raises(ShapeError, match="queries of all sources must have one shape"):
        build_corpus([pairs(2), other])


def test_no_query_at_all_is_refused():
    with pytest.raises(ConfigError, match="at least one query"):
        build_corpus([Source("a", unit(0), unit(3), ["x", "y", "z"], [])])


def test_lists_of_a_csr_table_come_padded():
    offsets, values = torch.tensor([0, 2, 2, 5]), torch.tensor([7, 8, 4, 5, 6])
    got = csr_rows(offsets, values, torch.tensor([2, 1, 0]), longest=3)
    assert got.tolist() == [[4, 5, 6], [-1, -1, -1], [7, 8, -1]]


def test_an_empty_csr_table_has_no_columns():
    assert csr_rows(
        torch.tensor([0, 0]), torch.empty(0, dtype=torch.int64), torch.tensor([0, 0]), longest=0
    ).shape == (2, 0)
