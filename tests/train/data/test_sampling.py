from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import pairs, unit  # noqa: E402

from toolheads.errors import ConfigError  # noqa: E402
from toolheads_train.data.corpus import Source, build_corpus  # noqa: E402
from toolheads_train.data.sampling import BatchSampler, SamplingSettings, steps_of_epoch  # noqa: E402

pytestmark = pytest.mark.train


def corpus_of(*sizes, free=()):
    sources = [pairs(n, name=f"s{i}", seed=i) for i, n in enumerate(sizes)]
    sources += [pairs(n, name=f"f{i}", seed=9, label_free=True) for i, n in enumerate(free)]
    return build_corpus(sources)


def shares(corpus, settings, draws=200):
    sampler = BatchSampler(corpus, settings, seed=0)
    rows = torch.cat([sampler.draw().queries for _ in range(draws)])
    bounds = torch.tensor(corpus.source_offsets[1:-1])
    return torch.bucketize(rows, bounds, right=True).bincount(minlength=len(corpus.names)) / len(
        rows
    )


@pytest.mark.parametrize(
    ("power", "want"),
    [(1.0, (0.04, 0.96)), (0.5, (1 / 5.8989795, 4.8989795 / 5.8989795)), (0.0, (0.5, 0.5))],
)
def test_data_sets_are_drawn_by_a_power_of_their_size(power, want):
    """4 and 96 queries: n ** 0.5 is 2 and 9.798, a share of 0.1695."""
    settings = SamplingSettings(batch_size=50, steps_per_epoch=10, power=power)
    torch.testing.assert_close(
        shares(corpus_of(4, 96), settings), torch.tensor(want), atol=0.015, rtol=0
    )


def test_every_query_of_a_data_set_is_drawn_alike():
    sampler = BatchSampler(corpus_of(10), SamplingSettings(batch_size=100, power=0.5), seed=0)
    counts = torch.cat([sampler.draw().queries for _ in range(100)]).bincount(minlength=10)
    assert counts.min() > 850  # of 1000; three standard deviations are 90


def test_label_free_pairs_get_their_share_of_every_batch():
    corpus = corpus_of(10, free=(5, 20))
    settings = SamplingSettings(batch_size=20, steps_per_epoch=5, label_free_share=0.3)
    sampler = BatchSampler(corpus, settings, seed=0)
    assert {int((sampler.draw().queries >= 10).sum()) for _ in range(20)} == {6}


def test_a_pass_shows_every_query_once_and_the_next_in_another_order():
    settings = SamplingSettings(batch_size=8, power=1.0)
    sampler = BatchSampler(corpus_of(10, 22), settings, seed=0)
    first, second = (
        torch.cat([sampler.draw().queries for _ in range(sampler.steps_per_epoch)])
        for _ in range(2)
    )
    assert sampler.steps_per_epoch == 4
    assert first.sort().values.tolist() == second.sort().values.tolist() == list(range(32))
    assert first.tolist() != second.tolist()


def test_one_of_several_tools_is_drawn_for_a_query_each_time():
    source = Source("a", unit(2), unit(4, seed=1), list("wxyz"), [[0, 1, 2], [3]])
    sampler = BatchSampler(build_corpus([source]), SamplingSettings(batch_size=400), seed=0)
    batch = sampler.draw()
    counts = batch.tools[batch.queries == 0].bincount(minlength=4)
    assert counts[3] == 0
    assert counts[:3].min() > 40
    assert set(batch.tools[batch.queries == 1].tolist()) == {3}


def test_hard_negatives_are_drawn_from_the_querys_own_list():
    source = Source("a", unit(2), unit(4, seed=1), list("wxyz"), [[0], [1]], negatives=[[2, 3], []])
    sampler = BatchSampler(
        build_corpus([source]), SamplingSettings(batch_size=100, hard_negatives=2), seed=0
    )
    batch = sampler.draw()
    assert batch.negatives.shape == (100, 2)
    assert set(batch.negatives[batch.queries == 0].flatten().tolist()) == {2, 3}
    assert set(batch.negatives[batch.queries == 1].flatten().tolist()) == {-1}


@pytest.mark.parametrize("power", [0.5, 1.0])
@pytest.mark.parametrize("done", [0, 3, 5])
def test_a_restored_sampler_draws_what_the_other_would_have(power, done):
    corpus, settings = (
        corpus_of(10, 30, free=(4,)),
        SamplingSettings(batch_size=8, power=power, label_free_share=0.25),
    )
    one, two = BatchSampler(corpus, settings, seed=0), BatchSampler(corpus, settings, seed=7)
    for _ in range(done):
        one.draw()
    two.load_state_dict(one.state_dict())
    for _ in range(10):
        a, b = one.draw(), two.draw()
        assert torch.equal(a.queries, b.queries)
        assert torch.equal(a.tools, b.tools)
    assert one.step_in_epoch == two.step_in_epoch


def test_two_seeds_draw_different_batches():
    corpus, settings = corpus_of(64), SamplingSettings(batch_size=16)
    one, two = (BatchSampler(corpus, settings, seed=seed).draw().queries for seed in (0, 1))
    assert one.tolist() != two.tolist()


def test_a_checkpoint_of_other_data_is_refused():
    settings = SamplingSettings(batch_size=4, power=1.0)
    one = BatchSampler(corpus_of(10), settings, seed=0)
    one.draw()
    with pytest.raises(ConfigError, match="must be resumed with its own data, got 12"):
        BatchSampler(corpus_of(12), settings, seed=0).load_state_dict(one.state_dict())


def test_an_epoch_is_a_pass_unless_its_steps_are_set():
    corpus = corpus_of(100, free=(40,))
    assert steps_of_epoch(corpus, SamplingSettings(batch_size=10)) == 10
    assert steps_of_epoch(corpus, SamplingSettings(batch_size=10, label_free_share=0.5)) == 20
    assert steps_of_epoch(corpus, SamplingSettings(batch_size=10, label_free_share=1.0)) == 4
    assert steps_of_epoch(corpus, SamplingSettings(batch_size=10, steps_per_epoch=7)) == 7
    assert steps_of_epoch(corpus, SamplingSettings(batch_size=1000)) == 1


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"batch_size": 1}, "batch_size must be >= 2, got 1"),
        ({"power": 1.5}, r"power must be in \[0, 1\], got 1.5"),
        ({"label_free_share": -0.1}, "label_free_share must be in"),
        ({"steps_per_epoch": 0}, "steps_per_epoch must be >= 1, got 0"),
        ({"replacement": False, "power": 0.5}, "replacement must be unset or true"),
    ],
)
def test_settings_that_break_their_rule_are_refused(settings, match):
    with pytest.raises(ConfigError, match=match):
        SamplingSettings(**settings)


def test_a_share_of_label_free_pairs_needs_some():
    with pytest.raises(ConfigError, match=r"label-free pairs when there are none, got 0\.5"):
        BatchSampler(corpus_of(4), SamplingSettings(label_free_share=0.5), seed=0)
