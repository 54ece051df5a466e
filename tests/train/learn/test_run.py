"""Learning from a log, from the events to the heads: better ones, or none."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.train.learn.world import (
    QUICK,
    TOOLS,
    any_shown,
    encoder,
    events,
    given_heads,
    requests,
    written,
)
from tests.train.synthetic import HARMLESS

from toolheads.errors import BackboneMismatchError
from toolheads.heads.files import heads_from_bytes, heads_to_bytes
from toolheads.usage import Call, Search
from toolheads_train.learn.decision import SHOWN
from toolheads_train.learn.run import learn

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]


@pytest.fixture(scope="module")
def given():
    return given_heads()


@pytest.fixture(scope="module")
def good(given):
    return events(given, requests())


def learnt(folder, given, found, settings=QUICK, tools=TOOLS, backbone=None, **how):
    log = written(folder, found, **how)
    return learn(given, log, tools, backbone or encoder(), settings, name="new")


def test_heads_learn_what_people_mean_and_prove_it_on_later_requests(tmp_path, given, good):
    done = learnt(tmp_path, given, good)
    report = done.report
    assert report.promoted
    assert report.comparison.p[SHOWN] < 0.05
    assert report.comparison.gain > 0.05
    assert report.validation["best"] > report.validation["given"]
    assert 0 < report.best_step <= report.steps
    assert report.agreement == pytest.approx(1.0)
    assert report.reason.startswith("nDCG@10 of the shown tools +")
    assert done.heads.fingerprint == given.fingerprint
    assert done.heads.header.views == given.header.views
    training = done.heads.header.training
    assert (training["name"], training["started_from"]["name"]) == ("new", "old")
    assert heads_from_bytes(heads_to_bytes(done.heads), "again").name == "new"


def test_the_same_log_and_seed_give_the_same_bytes(tmp_path, given, good):
    one, two = (heads_to_bytes(learnt(tmp_path / n, given, good).heads) for n in "ab")
    assert one == two


def test_tools_that_were_passed_over_are_used(tmp_path, given, good):
    plain = dataclasses.replace(QUICK, soft_negatives=0)
    with_them = learnt(tmp_path / "a", given, good).heads
    without = learnt(tmp_path / "b", given, good, plain).heads
    assert not np.array_equal(
        with_them.state.weights["out.weight"], without.state.weights["out.weight"]
    )


def refused(done):
    assert done.heads is None
    assert not done.report.promoted
    assert "\n" not in done.report.reason
    assert done.report.to_text().endswith(f"not kept: {done.report.reason}\n")
    return done.report.reason


def test_clicks_at_random_teach_nothing(tmp_path, given):
    found = events(given, requests(), choose=any_shown)
    reason = refused(learnt(tmp_path, given, found))
    assert "no epoch beat the given heads" in reason or "must beat the given ones" in reason


def test_a_log_of_other_tool_ids_is_recognised(tmp_path, given, good):
    other = {tool.id: TOOLS[(at * 7 + 5) % len(TOOLS)].id for at, tool in enumerate(TOOLS)}
    found = [
        dataclasses.replace(e, shown=tuple(other[t] for t in e.shown))
        if isinstance(e, Search)
        else dataclasses.replace(e, tool_id=other[e.tool_id])
        for e in good
    ]
    assert "the log is of another catalogue" in refused(learnt(tmp_path, given, found))


def test_calls_of_tools_that_were_not_shown_are_no_evidence(tmp_path, given, good):
    searches = {e.search_id: e for e in good if isinstance(e, Search)}
    found = [
        e
        if isinstance(e, Search)
        else dataclasses.replace(
            e, tool_id=next(t.id for t in TOOLS if t.id not in searches[e.search_id].shown)
        )
        for e in good
    ]
    done = learnt(tmp_path, given, found)
    assert "at least 100 different requests" in refused(done)
    calls = sum(isinstance(e, Call) for e in good)
    assert done.report.counts["calls of a tool that their search did not show"] == calls


def test_thirty_requests_are_too_few_and_the_number_needed_is_told(tmp_path, given, good):
    reason = refused(learnt(tmp_path, given, good[:55]))
    assert "at least 100 different requests that a successful call followed (60, 15, 25" in reason
    assert "got 2" in reason or "got 3" in reason


def test_a_log_of_digests_says_that_it_lacks_the_texts(tmp_path, given, good):
    reason = refused(learnt(tmp_path, given, good, keep_texts=False))
    assert reason.startswith("a usage log must have the texts of requests")


def test_a_damaged_log_is_refused_with_its_first_fault(tmp_path, given, good):
    written(tmp_path, good)
    for path in tmp_path.glob("*.jsonl"):
        lines = path.read_text().splitlines()
        path.write_text("\n".join(line[: len(line) // (1 + n % 2)] for n, line in enumerate(lines)))
    reason = refused(learnt(tmp_path, given, []))
    assert "at most 5.0% damaged lines" in reason
    assert ".jsonl:2: invalid JSON" in reason


def test_heads_that_training_cannot_better_stay(tmp_path, given, good):
    harmful = dataclasses.replace(
        QUICK, optimizer=dataclasses.replace(QUICK.optimizer, lr=10.0), epochs=2
    )
    done = learnt(tmp_path, given, good, harmful)
    assert "no epoch beat the given heads on the validation part" in refused(done)
    assert done.report.best_step == 0
    assert done.report.steps > 0


def test_a_gain_that_could_be_chance_says_how_many_requests_would_show_it(tmp_path, given, good):
    strict = dataclasses.replace(QUICK, alpha=1e-90)
    reason = refused(learnt(tmp_path, given, good, strict))
    assert "must beat the given ones on the held-out requests with p < 1e-90" in reason
    assert "held-out requests, a log of" in reason


def test_each_text_is_embedded_once(tmp_path, given, good):
    backbone = encoder()
    learnt(tmp_path, given, good, backbone=backbone)
    assert len(set(backbone.sent)) == len(backbone.sent)


def test_heads_of_another_encoder_are_refused(tmp_path, given, good):
    from tests.hash_encoder import HashEncoder

    with pytest.raises(BackboneMismatchError):
        learnt(tmp_path, given, good, backbone=HashEncoder(48, model="other"))
