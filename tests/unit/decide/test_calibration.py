import json
from dataclasses import replace

import numpy as np
import pytest
from tests.hash_encoder import HashEncoder
from tests.unit.decide.made import GivenScorer, bound

from toolheads.data import Dataset
from toolheads.decide import (
    Bind,
    Calibration,
    CalibrationSettings,
    Picker,
    calibrate,
    check_calibration,
    load_calibration,
    save_calibration,
)
from toolheads.decide.calibration import CatalogueKind, subject_of
from toolheads.decide.calibration.run import drawn
from toolheads.domain import Query, Tool
from toolheads.embedder import Embedder
from toolheads.errors import CalibrationError, ConfigError
from toolheads.heads import Views
from toolheads.scorers.bm25 import BM25Scorer
from toolheads.scorers.dense import DenseScorer
from toolheads.scorers.hybrid import HybridScorer
from toolheads.scorers.rank_fusion import RankFusion
from toolheads.texts import TextSettings

VERBS = ["open", "close", "send", "read", "delete", "share", "print", "rename", "copy", "archive"]
THINGS = ["mail", "invoice", "photo", "ticket", "note", "report", "song", "meeting"]
TOOLS = tuple(
    Tool(f"{verb}_{thing}", f"{verb}_{thing}", "office", f"Will {verb} one {thing} of the user")
    for verb in VERBS
    for thing in THINGS
)
SETTINGS = CalibrationSettings(targets=(0.05, 0.1))


def made_dataset(name="office", tools=TOOLS, n=160):
    rng = np.random.default_rng(0)
    queries = []
    for i in range(2 * n):
        tool = tools[rng.integers(len(tools))]
        verb, thing = tool.name.split("_")
        text = f"please {verb} the {thing}" if rng.random() < 0.7 else f"something with a {thing}"
        split = "train" if i < n else "test"
        queries.append(Query(f"q{i}", text, {tool.id: 1}, split))
    return Dataset(name, tuple(tools), tuple(queries), {"tools.jsonl": "ab" * 32})


@pytest.fixture(scope="module")
def made():
    scorer = BM25Scorer()
    return scorer, calibrate(scorer, [made_dataset()], SETTINGS)


def changed(calibration, **fields):
    """The file of a calibration with some fields changed and the old digest."""
    return calibration.to_json() | fields


def test_calibrated_thresholds_bind_what_is_there_and_not_what_is_hidden(made):
    scorer, calibration = made
    settings = calibration.settings(0.1)
    picker = Picker(TOOLS, scorer, settings)
    assert bound(picker.resolve("please archive the invoice")).name == "archive_invoice"
    hidden = [tool for tool in TOOLS if tool.name != "archive_invoice"]
    assert not isinstance(picker.rebuild(hidden).resolve("something with a invoice"), Bind)


def test_a_calibration_says_what_it_gives_on_other_queries(made):
    scorer, calibration = made
    (check,) = check_calibration(
        calibration, scorer, [made_dataset()], replace(SETTINGS, split="test")
    )
    assert check.dataset == "office"
    assert all(trade.coverage > 0.2 for trade in check.trades)
    assert all(trade.accuracy > 0.9 for trade in check.trades)
    assert check.auroc > 0.6
    assert len(check.lists) == len(calibration.lists) == 2


def test_scores_that_are_no_cosines_get_a_unit(made):
    _, calibration = made
    settings = calibration.settings(0.05)
    assert settings.score_unit > 1
    assert 0 < settings.similarity_floor <= 1


def test_a_calibration_is_equal_after_its_file(made, tmp_path):
    _, calibration = made
    path = save_calibration(tmp_path / "new" / "c.json", calibration)
    assert load_calibration(path) == calibration
    assert calibration.cutoff(0.1).max_k == calibration.lists[1].max_k


def test_the_same_queries_give_the_same_calibration(made):
    assert calibrate(BM25Scorer(), [made_dataset()], SETTINGS) == made[1]


def test_a_file_that_was_changed_is_refused(made, tmp_path):
    path = save_calibration(tmp_path / "c.json", made[1])
    path.write_text(path.read_text("utf-8").replace('"margin"', '"margiN"', 1), encoding="utf-8")
    with pytest.raises(CalibrationError, match="it was changed after it was made"):
        load_calibration(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", "must be a JSON object"),
        ("{", "must be JSON"),
        ('{"format": 9}', "must have format 2, got 9"),
        ('{"format": 2, "auroc": NaN}', "must be JSON"),
        ("[" * 100_000, "must be JSON"),
    ],
)
def test_what_is_no_calibration_is_refused(content, reason, tmp_path):
    (tmp_path / "c.json").write_text(content, encoding="utf-8")
    with pytest.raises(CalibrationError, match=reason):
        load_calibration(tmp_path / "c.json")


def test_a_missing_file_is_told():
    with pytest.raises(CalibrationError, match="must be a calibration file, got: No such file"):
        load_calibration("nowhere.json")


@pytest.mark.parametrize("field", ["kind", "thresholds", "subject", "lists"])
def test_a_file_with_a_right_digest_and_wrong_fields_is_refused(made, field):
    content = changed(made[1], **{field: {"what": 1}})
    if field == "subject":
        del content["subject"]
    content["sha256"] = _digest(content)
    with pytest.raises(CalibrationError, match="must have the fields of format 2"):
        Calibration.from_json(content)


def _digest(content):
    from toolheads.decide.calibration.file import _sha256

    return _sha256({key: value for key, value in content.items() if key != "sha256"})


def test_thresholds_that_were_not_fitted_are_not_made_up(made):
    with pytest.raises(CalibrationError, match=r"one of 0.05, 0.1 of this calibration, got 0.2"):
        made[1].settings(0.2)
    with pytest.raises(CalibrationError, match=r"alpha must be one of 0.05, 0.1"):
        made[1].cutoff(0.2)


def dense(encoder=None, texts=None, **options):
    return DenseScorer(Embedder(encoder or HashEncoder(32), texts or TextSettings()), **options)


def test_another_scorer_is_refused_and_told_apart(made):
    calibration = replace(made[1], subject=subject_of(dense()))
    calibration.check(dense(), TOOLS)
    for other, said in [
        (BM25Scorer(), "scorer 'vectors' != 'bm25'"),
        (dense(HashEncoder(32, model="other")), "encoder.model 'hash' != 'other'"),
        (dense(texts=TextSettings(tool_format="tool-sentence/v1")), "texts.tool_format"),
        (dense(views=Views({"text": 0.5, "name": 0.5})), "recipe"),
    ]:
        with pytest.raises(CalibrationError, match=said):
            calibration.check(other, TOOLS)


def test_scores_that_are_mixed_by_rank_are_others():
    embedder = Embedder(HashEncoder(16))
    by_score, by_rank = HybridScorer(embedder), HybridScorer(embedder, ranks=RankFusion())
    assert subject_of(by_score) != subject_of(by_rank)
    assert subject_of(by_rank) != subject_of(HybridScorer(embedder, ranks=RankFusion(depth=7)))


def test_other_parameters_of_bm25_are_refused(made):
    made[1].check(BM25Scorer(), TOOLS)
    with pytest.raises(CalibrationError, match=r"k1 1.5 != 2.0"):
        made[1].check(BM25Scorer(k1=2.0), TOOLS)


def test_other_heads_of_one_name_are_refused():
    from tests.made_heads import DEEP, made_head, made_heads

    from toolheads.scorers.clm import CLMScorer

    embedder = Embedder(HashEncoder(8))

    def scorer(seed):
        heads = made_heads(
            state=made_head(DEEP, seed=seed),
            fingerprint=embedder.fingerprint,
            probe=embedder.probe(),
        )
        return CLMScorer(heads, embedder)

    assert subject_of(scorer(1)) == subject_of(scorer(1))
    assert subject_of(scorer(1)) != subject_of(scorer(2))


def test_a_scorer_of_another_package_may_say_what_it_is():
    class Own(GivenScorer):
        def calibration_subject(self):
            return {"model": "mine"}

    assert subject_of(Own([])) == {"scorer": "given", "model": "mine"}
    assert subject_of(GivenScorer([])) == {"scorer": "given"}


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (TOOLS[:19], "19 tools, not 20 to 320"),
        (TOOLS * 5, "400 tools, not 20 to 320"),
        ([replace(tool, server=None) for tool in TOOLS], "0% of tools with a server, not 100%"),
        (
            [replace(tool, input_schema={"properties": {"p": {}}}) for tool in TOOLS],
            "100% of tools with parameters, not 0%",
        ),
        (
            [replace(tool, description="word " * 22) for tool in TOOLS],
            "descriptions of 22 words, not 7",
        ),
    ],
)
def test_another_kind_of_catalogue_is_refused(made, tools, said):
    with pytest.raises(CalibrationError, match=said):
        made[1].check(BM25Scorer(), tools)


def test_catalogues_of_many_sizes_are_one_kind():
    kind = CatalogueKind.of([TOOLS[:20], TOOLS])
    assert kind.difference(CatalogueKind.of([TOOLS[:5]])) == ""
    assert kind.difference(CatalogueKind.of([TOOLS[:4]])) != ""


def test_targets_that_the_queries_are_too_few_for_are_left_out():
    settings = replace(SETTINGS, targets=(0.01, 0.1))
    assert calibrate(BM25Scorer(), [made_dataset()], settings).targets == (0.1,)
    with pytest.raises(CalibrationError, match=r"at least 200 for 0.01 false binds"):
        calibrate(BM25Scorer(), [made_dataset()], replace(SETTINGS, targets=(0.01,)))


def test_a_split_without_queries_is_refused():
    with pytest.raises(ConfigError, match="queries of split val, got none in office"):
        calibrate(BM25Scorer(), [made_dataset()], replace(SETTINGS, split="val"))


def test_scores_that_are_not_finite_stop_a_calibration():
    class Broken(BM25Scorer):
        def rank(self, queries, k):
            ranked = super().rank(queries, k)
            return [[replace(hit, score=float("nan")) for hit in hits] for hits in ranked]

    with pytest.raises(CalibrationError, match="must be finite"):
        calibrate(Broken(), [made_dataset()], SETTINGS)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"split": "dev"}, "split must be one of"),
        ({"limit": 0}, "limit must be a whole number >= 1"),
        ({"depth": 1}, "depth must be a whole number >= 2"),
        ({"targets": ()}, "targets must hold at least one"),
        ({"targets": (0.1, 0.05)}, "targets must be rising"),
        ({"alphas": (0.1, 1.0)}, r"alphas must be rising numbers in \(0, 1\)"),
        ({"hide_at": 1.5}, r"hide_at must be a number in \[0, 1\]"),
    ],
)
def test_settings_that_break_their_rule_are_refused(values, reason):
    with pytest.raises(ConfigError, match=reason):
        CalibrationSettings(**values)


def test_a_draw_of_queries_is_in_their_order_and_by_name():
    queries = made_dataset().queries
    some = drawn(queries, "a", 10, 0)
    assert [q.id for q in some] == sorted((q.id for q in some), key=lambda i: int(i[1:]))
    assert some != drawn(queries, "b", 10, 0)
    assert drawn(queries, "a", None, 0) == list(queries)


def test_a_calibration_is_plain_json(made):
    assert json.loads(json.dumps(made[1].to_json())) == made[1].to_json()
