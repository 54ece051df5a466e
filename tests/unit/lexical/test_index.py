import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lexical.plain_bm25 import PlainBM25
from tests.unit.lexical.strategies import catalogues, lexical_settings, texts, weights_of

from toolheads.domain import Tool
from toolheads.errors import ConfigError, ShapeError
from toolheads.lexical import (
    FieldedIndex,
    FieldSettings,
    LexicalSettings,
    Normalise,
    field_terms,
    query_terms,
)

EVERY: tuple[Normalise, ...] = ("none", "best", "mass")
ONE = {"name": 1.0, "server": 1.0, "description": 1.0, "parameters": 1.0}
SUM = LexicalSettings(combine="sum")

MAIL = [
    Tool("a", "send_mail", "post", "Sends a mail to somebody.", {"properties": {"to": {}}}),
    Tool("b", "read_mail", "post", "Reads what came.", {"properties": {"mail_id": {}}}),
    Tool("c", "play_song", "music", "Plays a song."),
]


def assert_near(scores, expected):
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-7)  # impacts are float32


def joined(k1=1.5, b=0.75):
    return LexicalSettings(fields=(FieldSettings("text", k1, b),), combine="sum")


@given(catalogues(), lexical_settings(), texts)
def test_field_scores_are_the_definition(tools, settings, text):
    found = FieldedIndex(tools, settings).scores([text])[0]
    expected = PlainBM25(tools, settings).of_fields(text)
    assert_near(found.T, [expected[f] for f in settings.names])


@given(st.data())
def test_weighted_scores_are_the_definition(data):
    tools, chosen, text = data.draw(catalogues()), data.draw(lexical_settings()), data.draw(texts)
    weights = data.draw(weights_of(chosen))
    index, plain = FieldedIndex(tools, chosen), PlainBM25(tools, chosen)
    scores = np.array(plain.weighted(text, weights))
    divisors: dict[Normalise, float] = {
        "none": 1,
        "best": scores.max() or 1,
        "mass": plain.mass(text, weights) or 1,
    }
    for normalise, divisor in divisors.items():
        found = index.weighted([text], weights, normalise=normalise)
        assert_near(found[0], scores / divisor)


@given(st.data())
def test_a_folded_index_scores_as_the_whole_one_to_the_bit(data):
    tools, chosen = data.draw(catalogues()), data.draw(lexical_settings())
    asked, weights = data.draw(st.lists(texts, max_size=3)), data.draw(weights_of(chosen))
    index = FieldedIndex(tools, chosen)
    folded = index.folded(weights)
    assert len(folded) == len(index) == len(tools)
    for normalise in EVERY:
        whole = index.weighted(asked, weights, normalise=normalise)
        assert whole.dtype == np.float32
        assert folded.scores(asked, normalise=normalise).tobytes() == whole.tobytes()


@given(st.data())
def test_scores_of_chosen_rows_are_those_of_all_to_the_bit(data):
    tools, chosen, text = data.draw(catalogues()), data.draw(lexical_settings()), data.draw(texts)
    rows = data.draw(st.lists(st.integers(0, len(tools) - 1), max_size=8))
    index = FieldedIndex(tools, chosen)
    for normalise in EVERY:
        whole = index.scores([text], normalise=normalise)[0]
        some = index.scores_of(text, rows, normalise=normalise)
        assert some.tobytes() == whole[rows].tobytes()
        assert some.shape == (len(rows), len(chosen.names))


@given(st.data())
def test_a_score_depends_on_neither_other_queries_nor_the_order_of_words_and_tools(data):
    tools, chosen = data.draw(catalogues()), data.draw(lexical_settings())
    asked = data.draw(st.lists(texts, min_size=1, max_size=4))
    weights = data.draw(weights_of(chosen))
    order = data.draw(st.permutations(range(len(tools))))
    index = FieldedIndex(tools, chosen)
    shuffled = FieldedIndex([tools[i] for i in order], chosen)
    turned = [" ".join(reversed(text.split())) for text in asked]
    scores = index.scores(asked)
    for row, text in enumerate(asked):
        assert index.scores([text])[0].tobytes() == scores[row].tobytes()
    assert (index.scores(turned) == scores).all()
    assert (shuffled.scores(asked) == scores[:, list(order)]).all()
    weighted = index.weighted(asked, weights)
    assert (shuffled.weighted(turned, weights) == weighted[:, list(order)]).all()


@given(catalogues(), lexical_settings(), texts)
def test_equal_tools_score_alike_to_the_bit(tools, settings, text):
    scores = FieldedIndex(tools * 2, settings).scores([text])[0]
    assert (scores[: len(tools)] == scores[len(tools) :]).all()


@given(st.data())
def test_normalised_scores_are_in_the_unit_interval(data):
    tools, chosen, text = data.draw(catalogues()), data.draw(lexical_settings()), data.draw(texts)
    weights = data.draw(weights_of(chosen))
    index = FieldedIndex(tools, chosen)
    plain = index.weighted([text], weights)[0]
    best, mass = (index.weighted([text], weights, normalise=n)[0] for n in ("best", "mass"))
    assert best.max() == (1 if plain.any() else 0)
    assert ((mass >= 0) & (mass <= 1)).all()
    assert ((best > 0) == (plain > 0)).all()
    fields = index.scores([text], normalise="mass")
    assert ((fields >= 0) & (fields <= 1)).all()


@given(st.data())
def test_an_explanation_adds_up_to_the_score(data):
    tools, chosen, text = data.draw(catalogues()), data.draw(lexical_settings()), data.draw(texts)
    weights = data.draw(weights_of(chosen))
    index = FieldedIndex(tools, chosen)
    scores = index.weighted([text], weights)[0]
    for row, score in enumerate(scores):
        matches = index.explain(text, row, weights)
        assert_near(sum(m.score for m in matches), score)
        values = [m.score for m in matches]
        assert values == sorted(values, reverse=True)
        assert all(value > 0 for value in values)
        if matches:
            assert sum(m.share for m in matches) == pytest.approx(1)


def test_an_explanation_names_words_as_the_query_spells_them():
    index = FieldedIndex(MAIL, LexicalSettings(stem="light"))
    matches = index.explain("Sending mails", 0)
    assert {(m.term, m.field) for m in matches} == {
        ("sending", "name"),
        ("sending", "description"),
        ("mails", "name"),
        ("mails", "description"),
    }
    assert index.explain("Sending mails", 2) == []


def test_each_field_is_scored_by_its_own_words():
    scores = FieldedIndex(MAIL).scores(["post mail id to music"])[0]
    assert (scores > 0).tolist() == [
        [True, True, True, False],  # `to` says nothing, even where a parameter is called so
        [True, True, False, True],
        [False, True, False, False],
    ]


def test_a_word_in_two_fields_counts_less_under_bm25f_than_under_the_sum():
    """By hand: fields of equal length, so the weighted frequency is 1 in one field, 2 in both."""
    tools = [Tool("a", "mail", "mail"), Tool("b", "mail", "x"), Tool("c", "y", "z")]
    summed, joint = (
        FieldedIndex(tools, chosen).weighted(["mail"], ONE)[0]
        for chosen in (SUM, LexicalSettings())
    )
    assert summed[0] == pytest.approx(2 * summed[1])
    assert joint[0] == pytest.approx(joint[1] * (2 / 3.5) / (1 / 2.5))


def test_scores_of_the_joined_field_are_those_of_bm25s():
    bm25s = pytest.importorskip("bm25s", reason="an implementation by others")
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(60)]
    tools = [
        Tool(f"t{i}", str(rng.choice(words)), description=" ".join(rng.choice(words, 1 + i % 17)))
        for i in range(200)
    ]
    index = FieldedIndex(tools, joined()).folded([1])
    other = bm25s.BM25(k1=1.5, b=0.75, method="lucene", backend="numpy")
    other.index([field_terms(tool, "text") for tool in tools], show_progress=False)
    for _ in range(20):
        text = " ".join(rng.choice(words, 6))
        expected = other.get_scores(query_terms(text))
        np.testing.assert_allclose(
            index.scores([text])[0], expected, rtol=1e-5
        )  # summed in float32


def test_a_corpus_without_tools_or_words_scores_nothing():
    for chosen in (LexicalSettings(), SUM, LexicalSettings(idf="field", combine="sum"), joined()):
        f = len(chosen.names)
        empty = FieldedIndex([], chosen)
        mute = FieldedIndex([Tool("a", "!"), Tool("b", "😀")], chosen)
        assert empty.scores(["mail"]).shape == (1, 0, f)
        assert empty.folded([1] * f).scores(["mail"], normalise="best").shape == (1, 0)
        assert not mute.scores(["mail !", ""], normalise="mass").any()
        assert not mute.folded([1] * f).scores(["mail"], normalise="best").any()
        assert mute.explain("mail", 1) == []
        assert mute.scores([]).shape == (0, 2, f)


@pytest.mark.parametrize("text", ["", "   ", "!?", "zzz", "\x00", "\ud800", "🙂"])
def test_a_query_that_shares_no_word_scores_nothing(text):
    index = FieldedIndex(MAIL)
    for normalise in EVERY:
        assert not index.scores([text], normalise=normalise).any()
        assert not index.weighted([text], ONE, normalise=normalise).any()


@pytest.mark.parametrize(
    ("described", "asked"),
    [
        ("指定した都市の天気予報を取得する", "東京の天気"),
        ("发布大雨警报", "雨"),
        ("도시의 날씨를 조회합니다", "서울 날씨"),
        ("พยากรณ์อากาศของเมือง", "อากาศ"),
        ("прогноз погоды", "ПОГОДЫ"),
        ("मौसम की जानकारी", "मौसम"),
        ("حالة الطقس", "الطقس"),
        ("Café finder", "cafe"),
        ("x-ray", "x"),
    ],
)
def test_words_of_any_script_are_found_also_one_character(described, asked):
    tools = [Tool("n", "noise"), Tool("t", "tool", description=described)]
    noise, found = FieldedIndex(tools).weighted([asked], ONE)[0]
    assert found > noise == 0


def test_stop_words_are_asked_for_only_if_there_is_nothing_else():
    index = FieldedIndex([Tool("a", "who"), Tool("b", "mail")])
    assert (index.weighted(["who is it", "who mail"], ONE) > 0).tolist() == [
        [True, False],
        [False, True],
    ]


def test_a_repeated_word_of_a_query_counts_as_often():
    index = FieldedIndex(MAIL)
    once, thrice = index.scores(["mail", "mail Mail MAIL"])
    np.testing.assert_array_equal(thrice, 3 * once)
    np.testing.assert_array_equal(
        index.weighted(["mail mail"], ONE), 2 * index.weighted(["mail"], ONE)
    )


def test_weights_may_be_named_or_in_the_order_of_the_fields():
    index = FieldedIndex(MAIL)
    named = index.weighted(["send mail"], {"description": 2.0})
    np.testing.assert_array_equal(named, index.weighted(["send mail"], np.array([0, 0, 2, 0])))


@given(st.data())
def test_an_index_read_from_its_arrays_scores_alike(data):
    tools, chosen, text = (
        data.draw(catalogues(min_size=0)),
        data.draw(lexical_settings()),
        data.draw(texts),
    )
    index = FieldedIndex(tools, chosen)
    arrays = {name: np.array(a) for name, a in index.to_arrays().items()}
    again = FieldedIndex.from_arrays(arrays)
    assert again.settings == chosen
    assert again.scores([text]).tobytes() == index.scores([text]).tobytes()
    assert {a.dtype for a in arrays.values()} <= set(map(np.dtype, ("u1", "i4", "i8")))


@given(st.data())
def test_another_formula_needs_no_second_reading(data):
    tools, text = data.draw(catalogues()), data.draw(texts)
    one, other = (
        LexicalSettings(),
        LexicalSettings(
            fields=tuple(FieldSettings(f, 0.9, 0.4) for f in LexicalSettings().names),
            combine=data.draw(st.sampled_from(["sum", "bm25f"])),
        ),
    )
    changed = FieldedIndex(tools, one).with_settings(other)
    assert changed.scores([text]).tobytes() == FieldedIndex(tools, other).scores([text]).tobytes()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": None}, "rows must be an array of int32, got none"),
        ({"counts": np.zeros(3)}, "counts must be an array of int32, got dtype float64"),
        ({"terms": np.frombuffer(b"\xff\n", np.uint8)}, "terms must be UTF-8"),
        ({"terms": np.frombuffer(b"b\na\n", np.uint8)}, "terms must be sorted"),
        ({"terms": np.frombuffer(b"a\n", np.uint8)}, "bounds must rise"),
        ({"lengths": np.zeros((3, 5), np.int32)}, r"lengths must have 4 columns, got \(3, 5\)"),
        ({"lengths": np.zeros((1, 4), np.int32)}, "rows and fields must rise"),
        ({"lengths": np.zeros(4, np.int32)}, "lengths must have shape"),
        ({"fields": np.zeros(1, np.uint8)}, "must have one shape"),
        ({"settings": np.frombuffer(b"{", np.uint8)}, "settings must be JSON"),
        ({"settings": None}, "settings must be JSON"),
    ],
)
def test_damaged_arrays_are_refused(change, reason):
    arrays = FieldedIndex(MAIL).to_arrays() | change
    with pytest.raises(ShapeError, match=reason):
        FieldedIndex.from_arrays({k: v for k, v in arrays.items() if v is not None})


@pytest.mark.parametrize("change", [(0, 1), (1, 0), (-1, -1)])
def test_terms_without_entries_and_entries_without_term_are_refused(change):
    arrays = FieldedIndex(MAIL * 2).to_arrays()  # each term has two entries or more
    arrays["bounds"] = arrays["bounds"].copy()
    place, value = change
    arrays["bounds"][place] = value if place >= 0 else arrays["bounds"][place] + value
    with pytest.raises(ShapeError, match="bounds must rise"):
        FieldedIndex.from_arrays(arrays)


def test_entries_out_of_order_are_refused():
    arrays = FieldedIndex(MAIL).to_arrays()
    arrays["rows"] = arrays["rows"][::-1].copy()
    with pytest.raises(ShapeError, match="rows and fields must rise"):
        FieldedIndex.from_arrays(arrays)


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ({"title": 1.0}, "weights must be of the fields name, server, .*, got 'title'"),
        ({"name": -1.0}, "weights must be finite and >= 0"),
        ([1, 1, 1, float("nan")], "weights must be finite"),
        ([1, 1, 1, float("inf")], "weights must be finite"),
        ([1, 1], r"weights must have shape \(4,\), got \(2,\)"),
    ],
)
def test_weights_that_break_their_rule_are_refused(weights, reason):
    index = FieldedIndex(MAIL)
    with pytest.raises(ConfigError, match=reason):
        index.folded(weights)
    with pytest.raises(ConfigError, match=reason):
        index.weighted(["x"], weights)
    with pytest.raises(ConfigError, match=reason):
        index.explain("x", 0, weights)


@pytest.mark.parametrize("rows", [[3], [-1], [0.5], [[0]]])
def test_rows_that_are_not_of_the_corpus_are_refused(rows):
    with pytest.raises(ShapeError, match="rows must be"):
        FieldedIndex(MAIL).scores_of("mail", rows)


def test_an_unknown_normalisation_is_refused():
    with pytest.raises(ConfigError, match="normalise must be one of none, best, mass, got 'max'"):
        FieldedIndex(MAIL).scores(["mail"], normalise="max")  # type: ignore[arg-type]  # the point


def test_other_fields_need_another_index():
    with pytest.raises(ConfigError, match="build another index"):
        FieldedIndex(MAIL).with_settings(joined())
    with pytest.raises(ConfigError, match="build another index"):
        FieldedIndex(MAIL).with_settings(LexicalSettings(stem="light"))


def test_an_index_keeps_nothing_of_what_it_was_given():
    tools = list(MAIL)
    index = FieldedIndex(tools)
    before = index.scores(["mail song"])
    tools.clear()
    assert len(index) == 3
    np.testing.assert_array_equal(index.scores(["mail song"]), before)


def test_ten_thousand_tools_are_asked_without_a_loop_over_them():
    """Counted, not timed: a query makes as many calls as on three tools."""
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(500)]
    many = [Tool(f"t{i}", "x", description=" ".join(rng.choice(words, 12))) for i in range(10_000)]
    few = [Tool(f"t{i}", "x", description=" ".join(words)) for i in range(3)]
    assert calls_of_a_query(many) == calls_of_a_query(few)


def calls_of_a_query(tools):
    index, text = FieldedIndex(tools), "word1 word2 word3 word4"
    folded = index.folded(ONE)
    asks = [
        partial(index.scores, [text]),
        partial(index.weighted, [text], ONE),
        partial(index.scores_of, text, [0, 2]),
        partial(folded.scores, [text]),
    ]
    for ask in asks:
        ask()  # what is cached on the way is cached now
    return [counted_calls(ask) for ask in asks]


def counted_calls(ask):
    events = []
    sys.setprofile(lambda _frame, event, _arg: events.append(event))
    try:
        ask()
    finally:
        sys.setprofile(None)
    return len(events)
