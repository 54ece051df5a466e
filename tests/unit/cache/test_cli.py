"""The commands `embed` and `cache`, with an encoder that needs no model."""

import json

import pytest
from tests.hash_encoder import HashEncoder
from tests.unit.cache.samples import flip_byte, open_cache, shard_files, vectors

from toolheads.entrypoints.cli import main
from toolheads.identity import PROBE_TEXTS


@pytest.fixture
def encoders(monkeypatch):
    """Every encoder that a command made."""
    made = []

    def make(settings):
        made.append(HashEncoder())
        return made[-1]

    monkeypatch.setattr("toolheads.entrypoints.cli.embed.make_encoder", make)
    return made


@pytest.fixture
def data(tmp_path):
    """Two data sets: three tools, and a query in each split with the same text in both."""
    for name in ("one", "two"):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        tools = [
            {"id": f"t{i}", "server": name, "name": f"doThing{i}", "description": "Does. It all."}
            for i in range(3)
        ]
        queries = [
            {"id": f"q {split}", "text": text, "relevant": ["t0"], "split": split}
            for split, text in (("train", "Do this here. Then do that there."), ("test", "Do it."))
        ]
        for file, lines in (("tools.jsonl", tools), ("queries.jsonl", queries)):
            folder.joinpath(file).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "data"


def embed(data, tmp_path, *options):
    return main(["embed", "--data", str(data), "--cache", str(tmp_path / "cache"), *options])


def test_embed_prints_what_it_took_as_json(data, tmp_path, encoders, capsys):
    assert embed(data, tmp_path, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["data_sets"] == ["one", "two"]
    # Two times three tools and two queries; the queries of both data sets are the same two texts.
    assert (summary["texts"], summary["unique"]) == (10, 8)
    assert (summary["reused"], summary["embedded"]) == (0, 8)
    assert (summary["model"], summary["width"], summary["dtype"]) == ("hash", 16, "float16")


def test_embedding_again_sends_nothing_but_the_probe(data, tmp_path, encoders, capsys):
    embed(data, tmp_path)
    assert embed(data, tmp_path) == 0
    assert encoders[1].sent == list(PROBE_TEXTS)
    assert "8 unique: 8 reused, 0 embedded" in capsys.readouterr().out


def test_embed_takes_views_clauses_and_splits(data, tmp_path, encoders):
    embed(data / "one", tmp_path, "--views", "name,summary", "--clauses", "--splits", "train")
    assert sorted(set(encoders[0].sent) - set(PROBE_TEXTS)) == [
        "Do this here.",
        "Do this here. Then do that there.",
        "Does.",
        "Then do that there.",
        "do Thing0",
        "do Thing1",
        "do Thing2",
    ]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            ["--splits", "tset"],
            "--splits must name splits of the queries (test, train), got 'tset'",
        ),
        (["--views", ","], "--views must name at least one of text, name, summary, got nothing"),
        (["--views", "nmae"], "a tool view must be one of text, name, summary, got 'nmae'"),
    ],
)
def test_embed_refuses_a_name_it_does_not_know(data, tmp_path, encoders, capsys, option, message):
    assert embed(data, tmp_path, *option) == 2
    assert capsys.readouterr().err == f"toolheads: {message}\n"
    assert encoders == []


def test_splits_of_nothing_embed_the_tools_alone(data, tmp_path, encoders):
    embed(data / "one", tmp_path, "--splits", "")
    assert len(encoders[0].sent) == len(PROBE_TEXTS) + 3


def test_an_interrupted_embed_says_what_is_kept_and_how_to_go_on(
    data, tmp_path, encoders, capsys, monkeypatch
):
    encode = HashEncoder.encode

    def stop(self, texts):
        if self.count > len(PROBE_TEXTS):  # at the second call after the probe
            raise KeyboardInterrupt
        return encode(self, texts)

    monkeypatch.setattr(HashEncoder, "encode", stop)
    monkeypatch.setattr("toolheads.embedder._FIRST_CALL", 3)
    assert embed(data, tmp_path) == 130
    told = capsys.readouterr().err
    assert "interrupted; 3 of 8 texts are in the cache, run the same command to go on" in told


def test_progress_goes_to_stderr(data, tmp_path, encoders, capsys, monkeypatch):
    monkeypatch.setattr("toolheads.entrypoints.cli.progress._AT_ONCE_S", 0)
    embed(data, tmp_path, "--json")
    printed = capsys.readouterr()
    assert "embedding: 100%" in printed.err
    assert "texts/s" in printed.err
    json.loads(printed.out)


def test_info_lists_each_encoder_with_model_width_rows_and_size(tmp_path, capsys):
    open_cache(tmp_path, "float16").add(["a", "b"], vectors(1, 2))
    assert main(["cache", "info", "--cache", str(tmp_path), "--json"]) == 0
    (space,) = json.loads(capsys.readouterr().out)["spaces"]
    size = shard_files(tmp_path)[0].stat().st_size
    assert (space["width"], space["dtype"], space["rows"], space["shards"]) == (4, "float16", 2, 1)
    assert (space["bytes"], space["fingerprint"]["encoder"]["model"]) == (size, "m")
    main(["cache", "info", "--cache", str(tmp_path)])
    assert f"{space['key']}  m  width 4  float16  2 rows" in capsys.readouterr().out


def test_verify_is_content_with_a_whole_cache(tmp_path, capsys):
    open_cache(tmp_path).add(["a"], vectors(1))
    assert main(["cache", "verify", "--cache", str(tmp_path)]) == 0
    assert "1 shards read, 1 good rows" in capsys.readouterr().out


def test_verify_names_each_damaged_shard_and_exits_1(tmp_path, capsys):
    cache = open_cache(tmp_path)
    for i in range(3):
        cache.add([str(i)], vectors(i))
    damaged = shard_files(tmp_path)[:2]
    flip_byte(damaged[0], -1)
    damaged[1].write_bytes(b"short")
    assert main(["cache", "verify", "--cache", str(tmp_path)]) == 1
    named = capsys.readouterr().err
    assert all(str(path) in named for path in damaged)
    assert main(["cache", "verify", "--cache", str(tmp_path), "--json"]) == 1
    paths = [damage["path"] for damage in json.loads(capsys.readouterr().out)["damages"]]
    assert sorted(paths) == [str(path) for path in damaged]


def test_prune_says_what_it_did_and_a_dry_run_what_it_would_do(tmp_path, capsys):
    cache = open_cache(tmp_path)
    for i in range(3):
        cache.add([str(i)], vectors(i))
    flip_byte(shard_files(tmp_path)[0], -1)
    command = ["cache", "prune", "--cache", str(tmp_path)]
    assert main([*command, "--dry-run"]) == 0
    assert "would remove 0 leftovers of killed runs, 1 damaged shards" in capsys.readouterr().out
    assert len(shard_files(tmp_path)) == 3
    assert main([*command, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["merged"]) == 2
    assert len(shard_files(tmp_path)) == 1


def test_prune_exits_1_where_a_folder_has_to_be_deleted(tmp_path, capsys):
    (open_cache(tmp_path).folder / "fingerprint.json").write_text("{")
    assert main(["cache", "prune", "--cache", str(tmp_path)]) == 1
    assert "; delete " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["info", "verify", "prune"])
def test_a_cache_that_is_not_there_is_bad_input(tmp_path, capsys, command):
    assert main(["cache", command, "--cache", str(tmp_path / "no")]) == 2
    assert capsys.readouterr().err == (
        f"toolheads: cache folder {tmp_path / 'no'} must exist, got no such folder\n"
    )
