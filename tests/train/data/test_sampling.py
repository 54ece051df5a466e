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


@pytest.mark.parametrize(
    "more",
    [{"power": 0.5}, {"power": 1.0}, {"tool_power": 0.5}, {"label_free_to": 0.9}],
    ids=str,
)
@pytest.mark.parametrize("done", [0, 3, 5])
def test_a_restored_sampler_draws_what_the_other_would_have(more, done):
    corpus, settings = (
        corpus_of(10, 30, free=(4,)),
        SamplingSettings(batch_size=8, label_free_share=0.25, **more),
    )
    one, two = (BatchSampler(corpus, settings, seed=seed, total_steps=15) for seed in (0, 7))
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


def test_tools_of_a_data_set_are_drawn_by_a_power_of_their_queries():
    """Four queries of one tool, one of another: counts 4 and 1, 4 ** 0.5 is 2."""
    source = Source("a", unit(5), unit(2, seed=1), ["x", "y"], [[0], [0], [0], [0], [1]])
    for power, want in ((1.0, 0.8), (0.5, 2 / 3), (0.0, 0.5)):
        settings = SamplingSettings(batch_size=100, steps_per_epoch=10, tool_power=power)
        sampler = BatchSampler(build_corpus([source, pairs(3)]), settings, seed=0)
        tools = torch.cat([sampler.draw().tools for _ in range(100)])
        own = tools[tools < 2]
        assert (own == 0).float().mean().item() == pytest.approx(want, abs=0.025)


def test_a_tool_power_leaves_the_shares_of_data_sets_alone():
    settings = SamplingSettings(batch_size=50, steps_per_epoch=10, power=0.5, tool_power=0.3)
    want = torch.tensor((1 / 5.8989795, 4.8989795 / 5.8989795))
    torch.testing.assert_close(shares(corpus_of(4, 96), settings), want, atol=0.015, rtol=0)


def test_a_batch_of_one_source_has_one_labelled_and_one_label_free():
    corpus = corpus_of(10, 30, free=(5, 20))
    settings = SamplingSettings(
        batch_size=20, steps_per_epoch=5, label_free_share=0.3, by_source="single"
    )
    sampler = BatchSampler(corpus, settings, seed=0)
    bounds = torch.tensor(corpus.source_offsets[1:-1])
    seen = set()
    for _ in range(40):
        sources = torch.bucketize(sampler.draw().queries, bounds, right=True)
        assert len(sources[:14].unique()) == len(sources[14:].unique()) == 1
        seen.add((int(sources[0]), int(sources[-1])))
    assert seen == {(0, 2), (0, 3), (1, 2), (1, 3)}


def test_the_label_free_share_moves_in_equal_steps_to_its_end():
    settings = SamplingSettings(
        batch_size=20, steps_per_epoch=5, label_free_share=0.0, label_free_to=1.0
    )
    sampler = BatchSampler(corpus_of(10, free=(5,)), settings, seed=0, total_steps=11)
    free = [int((sampler.draw().queries >= 10).sum()) for _ in range(13)]
    assert free == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 20, 20]


def test_a_share_that_moves_needs_the_length_of_the_training():
    settings = SamplingSettings(label_free_share=0.1, label_free_to=0.2)
    with pytest.raises(ConfigError, match="label_free_to must be unset where the steps"):
        BatchSampler(corpus_of(4, free=(4,)), settings, seed=0)


@pytest.mark.parametrize("more", [{}, {"tool_power": 0.4}])
def test_the_chance_of_a_tool_is_how_often_it_is_drawn(more):
    source = Source(
        "a", unit(4), unit(3, seed=1), ["x", "x", "y"], [[0], [1], [0, 2], [2]]
    )  # two rows of one tool
    corpus = build_corpus([source, pairs(9), pairs(4, name="f", label_free=True)])
    settings = SamplingSettings(
        batch_size=500, steps_per_epoch=9, label_free_share=0.25, power=0.5, **more
    )
    sampler = BatchSampler(corpus, settings, seed=0)
    chances: dict[int, float] = {}
    tools = []
    for _ in range(60):
        batch = sampler.draw()
        assert batch.chances is not None
        tools.append(batch.tools)
        groups = corpus.groups[batch.tools].tolist()
        chances |= dict(zip(groups, batch.chances.tolist(), strict=True))
    counts = corpus.groups[torch.cat(tools)].bincount(minlength=corpus.group_count)
    assert sum(chances.values()) == pytest.approx(1)
    for group, chance in chances.items():
        deviation = (chance * (1 - chance) / 30_000) ** 0.5
        assert counts[group].item() / 30_000 == pytest.approx(chance, abs=4.5 * deviation)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"tool_power": -0.1}, r"tool_power must be in \[0, 1\], got -0.1"),
        ({"label_free_to": 2.0}, r"label_free_to must be in \[0, 1\] or unset, got 2.0"),
        ({"replacement": False, "power": 1.0, "tool_power": 0.5}, "replacement must be unset"),
        ({"replacement": False, "power": 1.0, "by_source": "single"}, "by_source single"),
    ],
)
def test_new_ways_to_sample_keep_to_their_rules(settings, match):
    with pytest.raises(ConfigError, match=match):
        SamplingSettings(**settings)
