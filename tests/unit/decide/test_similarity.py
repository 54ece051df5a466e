from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hash_encoder import HashEncoder
from tests.unit.decide.made import GivenScorer

from toolheads.decide import RowSimilarity, WordSimilarity, by_embedding
from toolheads.decide.similarity import similarity_of
from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.errors import ShapeError
from toolheads.indexes.numpy_index import NumpyIndex
from toolheads.scorers.dense import DenseScorer
from toolheads.scorers.index_backed import IndexBackedScorer
from toolheads.scorers.recipe import Recipe

texts = st.text(max_size=30)
tools = st.lists(
    st.builds(Tool, id=st.just(""), name=st.text(min_size=1, max_size=8), description=texts),
    min_size=1,
    max_size=6,
)


@given(st.integers(0, 2**32 - 1), st.integers(1, 400))
def test_equal_rows_are_alike_by_exactly_one(seed, width):
    row = np.random.default_rng(seed).standard_normal(width).astype(np.float32)
    rows = np.stack([row, 3 * row, row])
    assert RowSimilarity(rows).to(0, np.arange(3))[[0, 2]].tolist() == [1.0, 1.0]


def test_rows_are_compared_by_their_angle():
    alike = RowSimilarity([[3, 0], [0, 2], [5, 5], [0, 0]])
    found = alike.to(0, np.arange(4))
    np.testing.assert_allclose(found, [1, 0, 0.5**0.5, 0], atol=1e-7)  # float32
    assert found.dtype == np.float32


@given(tools)
def test_equal_tools_are_alike_by_words_and_likeness_is_mutual(some):
    n = len(some)
    alike = WordSimilarity([*some, some[0]])
    table = np.stack([alike.to(row, np.arange(n + 1)) for row in range(n + 1)])
    assert table[0, n] == 1.0
    np.testing.assert_array_equal(table, table.T)
    assert table.min() >= 0
    assert table.max() <= 1
    assert (table.diagonal() == 1).all()


def test_words_count_once_each_and_those_of_parameters_too():
    schema: dict[str, Any] = {"properties": {"city": {}}}
    some = [Tool("1", "rain", input_schema=schema), Tool("2", "rain", description="rain rain city")]
    assert WordSimilarity(some).to(0, np.array([1])).tolist() == [1.0]


def test_a_scorer_with_rows_is_asked_for_them():
    some = [Tool("1", "mail"), Tool("2", "rain"), Tool("3", "mail")]
    scorer = DenseScorer(Embedder(HashEncoder(32)))
    scorer.index(some)
    by_rows, by_text = similarity_of(scorer, some), by_embedding(scorer._embedder)(some)
    # A row is a vector brought to length 1 once more, which may move its last bit.
    np.testing.assert_allclose(
        by_rows.to(0, np.arange(3)), by_text.to(0, np.arange(3)), rtol=1e-6, atol=1e-7
    )
    assert isinstance(similarity_of(GivenScorer([]), some), WordSimilarity)


def test_rows_in_an_index_are_compared_too():
    some = [Tool("1", "mail"), Tool("2", "rain"), Tool("3", "mail")]
    embedder = Embedder(HashEncoder(32))
    recipe = Recipe.frozen(32)
    index = NumpyIndex(space="s", width=32)
    scorer = IndexBackedScorer("dense", embedder, recipe, index, "\n".join)
    scorer.index(some)
    found = similarity_of(scorer, some).to(0)
    np.testing.assert_allclose(found, by_embedding(embedder)(some).to(0), atol=1e-6)  # float32


def test_a_scorer_with_too_few_rows_is_refused():
    class Short(GivenScorer):
        def tool_rows(self):
            return np.ones((1, 2), np.float32)

    with pytest.raises(ShapeError, match="must have 2 rows, got 1"):
        similarity_of(Short([]), [Tool("1", "a"), Tool("2", "b")])
