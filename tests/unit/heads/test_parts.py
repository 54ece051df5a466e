from __future__ import annotations

import numpy as np
import pytest
from tests.made_heads import ALL_VIEWS, made_heads

from toolheads.arrays import normalized
from toolheads.errors import ConfigError
from toolheads.heads import Fusion
from toolheads.heads.fusion import HubnessPart, LexicalPart
from toolheads.heads.parts import PARTS, without_parts

FULL = made_heads(
    views=ALL_VIEWS,
    training={"name": "full"},
    fusion=Fusion(LexicalPart(0.5), HubnessPart(0.2), 0.05),
)


def test_without_heads_projections_are_the_frozen_embeddings():
    bare = without_parts(FULL, ["heads"])
    rows = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    np.testing.assert_array_equal(bare.state(rows), normalized(rows))
    np.testing.assert_array_equal(bare.action(rows), normalized(rows))
    assert (bare.header.views, bare.fusion) == (ALL_VIEWS, FULL.fusion)


def test_without_views_or_clauses_the_whole_text_has_all_their_weight():
    views = without_parts(FULL, ["views"]).header.views
    assert (dict(views.tool), views.query) == ({"text": 1.0}, ALL_VIEWS.query)
    bare = without_parts(FULL, ["clauses"])
    assert (bare.header.views.tool, dict(bare.header.views.query)) == (ALL_VIEWS.tool, {"text": 1})
    assert bare.fusion == Fusion(LexicalPart(0.5), HubnessPart(0.2))


def test_without_a_part_of_the_fusion_the_others_stay():
    assert without_parts(FULL, ["lexical"]).fusion == Fusion(None, HubnessPart(0.2), 0.05)
    assert without_parts(FULL, ["hubness"]).fusion == Fusion(LexicalPart(0.5), None, 0.05)
    assert without_parts(FULL, ["lexical", "hubness", "clauses"]).fusion is None


def test_without_nothing_they_are_what_they_were():
    same = without_parts(FULL, [])
    assert (same.state, same.action, same.header, same.fusion) == (
        FULL.state,
        FULL.action,
        FULL.header,
        FULL.fusion,
    )


def test_all_parts_together_leave_frozen_cosines():
    bare = without_parts(FULL, list(PARTS))
    assert dict(bare.header.views.tool) == dict(bare.header.views.query) == {"text": 1.0}
    assert (bare.state.alpha, bare.action.alpha, bare.fusion) == (0, 0, None)


def test_a_part_that_is_not_there_is_refused():
    with pytest.raises(
        ConfigError,
        match="without must name some of heads, got 'lexical'; heads 'unnamed' have no lexical",
    ):
        without_parts(made_heads(), ["lexical"])
    with pytest.raises(ConfigError, match=r"without must name some of heads, views, .*, got 'wor"):
        without_parts(FULL, ["words"])
