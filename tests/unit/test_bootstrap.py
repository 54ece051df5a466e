"""Settings: who wins, what is refused, and which encoder comes out."""

import argparse
import inspect
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from toolheads import bootstrap
from toolheads.bootstrap import (
    ENCODER_KINDS,
    EncoderSettings,
    encoder,
    make_encoder,
    resolve_settings,
)
from toolheads.entrypoints.cli.options import (
    add_cache_option,
    add_data_option,
    add_encoder_options,
    add_text_options,
    encoder_settings,
    text_settings,
)
from toolheads.errors import ConfigError, MissingExtraError
from toolheads.texts.formats import TextSettings

SERVER = {
    "TOOLHEADS_ENCODER": "openai",
    "TOOLHEADS_ENCODER_URL": "http://env:1/v1",
    "TOOLHEADS_ENCODER_MODEL": "env-model",
}


def test_nothing_said_means_the_local_encoder():
    assert resolve_settings(environ={}) == EncoderSettings("local")


def test_the_environment_is_used_where_no_argument_is_given():
    got = resolve_settings(environ=SERVER)
    assert (got.kind, got.url, got.model) == ("openai", "http://env:1/v1", "env-model")


def test_an_argument_wins_over_the_environment():
    got = resolve_settings(environ=SERVER, model="mine")
    assert (got.kind, got.url, got.model) == ("openai", "http://env:1/v1", "mine")


def test_another_kind_leaves_out_the_environments_model_and_address():
    assert resolve_settings("local", environ=SERVER) == EncoderSettings("local")


def test_the_environments_kind_given_as_an_argument_takes_the_rest_of_it():
    assert resolve_settings("openai", environ=SERVER) == resolve_settings(environ=SERVER)


def test_an_address_without_a_kind_means_a_server():
    environ = {name: value for name, value in SERVER.items() if name != "TOOLHEADS_ENCODER"}
    assert resolve_settings(environ=environ).kind == "openai"
    assert resolve_settings(environ={}, url="http://x/v1", model="m").kind == "openai"


def test_an_empty_variable_is_no_setting():
    assert resolve_settings(environ=dict.fromkeys(SERVER, "")) == EncoderSettings("local")


def test_an_argument_that_is_none_is_no_setting():
    assert resolve_settings(environ={}, truncation=None, model=None) == EncoderSettings("local")


def test_the_process_environment_is_read_by_default(monkeypatch):
    for name, value in SERVER.items():
        monkeypatch.setenv(name, value)
    assert resolve_settings().url == "http://env:1/v1"


@pytest.mark.parametrize(("typed", "meant"), [("opnai", "openai"), ("Local", "local")])
def test_an_unknown_kind_is_refused_with_all_choices_and_the_nearest(typed, meant):
    with pytest.raises(ConfigError, match=f"got '{typed}'; did you mean {meant}") as e:
        resolve_settings(typed, environ={})
    assert "local, openai, sentence-transformers, vllm" in str(e.value)


def test_an_unknown_kind_in_the_environment_is_refused():
    with pytest.raises(ConfigError, match=r"must be one of local, .*, got 'bert'"):
        resolve_settings(environ={**SERVER, "TOOLHEADS_ENCODER": "bert"})


def test_an_unknown_setting_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="got 'truncate'; did you mean truncation"):
        resolve_settings(environ={}, truncate=3)


@pytest.mark.parametrize(
    ("kind", "setting", "says"),
    [
        ("local", {"url": "http://x"}, "url must be left out for encoder local, got 'http://x'"),
        ("local", {"compute_dtype": "bfloat16"}, "compute_dtype must be left out"),
        ("sentence-transformers", {"threads": 2}, "threads must be left out"),
        ("vllm", {"concurrency": 2, "model": "m"}, "concurrency must be left out"),
        ("local", {"truncation": -1}, "truncation must be >= 0 and finite, got -1"),
        ("openai", {"timeout_s": float("nan")}, "timeout_s must be >= 0 and finite, got nan"),
        ("openai", {"timeout_s": float("inf")}, "timeout_s must be >= 0 and finite, got inf"),
        ("vllm", {"dimensions": 0}, "dimensions must be >= 1, got 0"),
        ("openai", {"model": "m"}, "url must be given .*; pass --url or set TOOLHEADS_ENCODER_URL"),
        ("openai", {"url": "http://x"}, "model must be given .* set TOOLHEADS_ENCODER_MODEL"),
        ("vllm", {}, "model must be given for encoder vllm"),
    ],
)
def test_a_setting_that_breaks_its_rule_is_refused(kind, setting, says):
    with pytest.raises(ConfigError, match=says):
        resolve_settings(kind, environ={}, **setting)


@pytest.mark.parametrize("kind", ENCODER_KINDS)
def test_every_setting_of_a_kind_is_taken_by_its_encoder(kind, monkeypatch):
    name = {
        "local": "LocalEncoder",
        "openai": "OpenAIEncoder",
        "sentence-transformers": "SentenceTransformersEncoder",
        "vllm": "VllmEncoder",
    }[kind]
    module = import_module(f"toolheads.encoders.{kind.replace('-', '_')}")
    signature = inspect.signature(getattr(module, name))
    seen: set[str] = set()

    def record(*args, **options):
        seen.update(signature.bind(*args, **options).arguments)

    monkeypatch.setattr(module, name, record)
    numbers = ("truncation", "dimensions", "batch_tokens", "threads", "concurrency", "timeout_s")
    options = bootstrap._KINDS[kind].options
    settings: dict[str, Any] = {o: 5 if o in numbers else "x" for o in options}
    make_encoder(EncoderSettings(kind, **settings))
    renamed = {"timeout_s": "patience"} | ({"compute_dtype": "dtype"} if kind == "vllm" else {})
    assert seen == {renamed.get(option, option) for option in options}


def test_the_time_limit_reaches_the_client():
    pytest.importorskip("httpx")
    made: Any = encoder("openai", url="http://127.0.0.1:9/v1", model="m", timeout_s=7)
    assert made._transport._patience.timeout_s == 7
    made.close()


def test_the_facade_gives_a_ready_local_encoder(tmp_path):
    pytest.importorskip("onnxruntime")
    from tests.tiny_bert import WIDTH, write_tiny_bert

    made = encoder("local", model=str(write_tiny_bert(tmp_path / "m")), threads=1)
    assert made.encode(["rain"]).shape == (1, WIDTH)


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r"toolheads\[openai\]"):
        encoder("openai", url="http://127.0.0.1:9/v1", model="m")


def test_reading_settings_loads_no_encoder_library():
    code = (
        "import sys; from toolheads.entrypoints.cli import options; import toolheads.bootstrap;"
        "heavy = {'onnx', 'onnxruntime', 'tokenizers', 'safetensors', 'httpx', 'torch', 'vllm'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def parsed(*words):
    parser = argparse.ArgumentParser()
    add_encoder_options(parser)
    add_text_options(parser)
    add_cache_option(parser)
    add_data_option(parser)
    return parser.parse_args([*words, "--data", "d"])


def test_the_command_line_without_encoder_options_leaves_it_to_the_environment(monkeypatch):
    for name, value in SERVER.items():
        monkeypatch.setenv(name, value)
    assert encoder_settings(parsed()) == resolve_settings(environ=SERVER)


def test_every_encoder_option_of_the_command_line_reaches_its_setting(monkeypatch):
    for name in SERVER:
        monkeypatch.delenv(name, raising=False)
    server = "--encoder openai --model m --url http://x --revision r --truncation 9 --dimensions 4"
    more = "--batch-tokens 5 --concurrency 2 --timeout 1.5"
    assert encoder_settings(parsed(*server.split(), *more.split())) == EncoderSettings(
        "openai",
        model="m",
        url="http://x",
        revision="r",
        truncation=9,
        dimensions=4,
        batch_tokens=5,
        concurrency=2,
        timeout_s=1.5,
    )
    assert encoder_settings(parsed("--threads", "3")).threads == 3
    words = [
        "--encoder",
        "vllm",
        "--model",
        "m",
        "--model-name",
        "served",
        "--compute-dtype",
        "bfloat16",
    ]
    got = encoder_settings(parsed(*words))
    assert (got.name, got.compute_dtype) == ("served", "bfloat16")


def test_the_help_names_every_kind_and_variable():
    parser = argparse.ArgumentParser()
    add_encoder_options(parser)
    shown = " ".join(parser.format_help().split())
    for word in (*ENCODER_KINDS, *SERVER):
        assert word in shown


def test_the_text_options_give_the_default_formats_and_what_is_said():
    assert text_settings(parsed()) == TextSettings()
    got = text_settings(parsed("--instruction", "Find the tool.", "--budget", "100"))
    assert (got.instruction, got.budget) == ("Find the tool.", 100)


def test_the_paths_are_paths():
    args = parsed("--cache", "c", "--skip-bad")
    assert (args.cache.name, args.data.name, args.skip_bad) == ("c", "d", True)
