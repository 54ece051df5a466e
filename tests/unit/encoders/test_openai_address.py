"""Addresses as people type them, and which key goes where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.encoders.openai import OpenAIEncoder
from toolheads.encoders.openai.address import api_key_for, embeddings_url
from toolheads.errors import ConfigError
from toolheads.serving import access


@pytest.mark.parametrize(
    "typed",
    [
        "http://host:8000",
        "http://host:8000/",
        "http://host:8000/v1",
        " http://HOST:8000/v1/\n",
        "http://host:8000//v1//",
        "http://host:8000/v1/embeddings",
        "http://host:8000/v1/embeddings/",
    ],
)
def test_one_server_has_one_address_however_it_is_typed(typed):
    assert embeddings_url(typed) == "http://host:8000/v1/embeddings"


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("https://host/gateway", "https://host/gateway/v1/embeddings"),
        ("https://host/v1beta/openai", "https://host/v1beta/openai/embeddings"),
        ("https://host/api/v2", "https://host/api/v2/embeddings"),
        ("http://host/embeddings", "http://host/embeddings"),
        ("http://[::1]:8000", "http://[::1]:8000/v1/embeddings"),
    ],
)
def test_a_path_of_its_own_is_kept(typed, address):
    assert embeddings_url(typed) == address


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("", "start with http:// or https://"),
        ("localhost:8000", "write http://localhost:8000"),
        ("127.0.0.1:8000/v1", "write http://127.0.0.1:8000/v1"),
        ("ftp://host", "start with http:// or https://"),
        ("http://", "and a host"),
        ("http:///v1", "and a host"),
        ("http://ho st", "start with"),
        ("http://höst", "start with"),
        ("http://host:port", "cannot be read"),
        ("http://host:99999", "cannot be read"),
        ("http://[::1", "cannot be read"),
        ("http://host/v1?api-version=1", "query or fragment"),
        ("http://host/v1#x", "query or fragment"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(typed, reason):
    with pytest.raises(ConfigError, match=r"^url must ") as e:
        embeddings_url(typed)
    assert reason in str(e.value)


@given(st.from_regex(r"http://[!-~]{1,20}", fullmatch=True) | st.text(max_size=30))
def test_an_address_is_refused_at_once_or_can_be_used(typed):
    try:
        encoder = OpenAIEncoder(typed, "m")
    except ConfigError:
        return
    encoder.close()


def test_a_password_in_the_address_is_refused_and_not_shown():
    with pytest.raises(ConfigError, match="must not carry a user or password") as e:
        embeddings_url("http://me:s3cret@host/v1")
    assert "s3cret" not in str(e.value)


def test_the_key_comes_from_the_argument_before_the_environment(monkeypatch):
    monkeypatch.setenv("TOOLHEADS_API_KEY", "from-environment")
    url = embeddings_url("http://host")
    assert api_key_for(url, "given\n") == "given"
    assert api_key_for(url, None) == "from-environment"
    assert api_key_for(url, "") == ""


def test_the_key_that_clients_of_our_own_server_send_is_sent_to_no_encoder(monkeypatch):
    monkeypatch.delenv("TOOLHEADS_API_KEY", raising=False)
    monkeypatch.setenv(access.KEY_VARIABLE, "of-the-server")
    assert api_key_for(embeddings_url("http://host"), None) == ""


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://api.openai.com", "openai-key"),
        ("https://api.openai.com:443/v1", "openai-key"),
        ("http://api.openai.com", ""),
        ("https://api.openai.com:8443", ""),
        ("https://api.openai.com.evil.example", ""),
        ("https://example.com/api.openai.com", ""),
        ("http://127.0.0.1:8000", ""),
    ],
)
def test_the_key_of_openai_is_sent_to_openai_only(url, key, monkeypatch):
    monkeypatch.delenv("TOOLHEADS_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "openai-key")
    assert api_key_for(embeddings_url(url), None) == key


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel", "nul\0"])
def test_a_key_that_fits_no_header_is_refused_and_not_shown(key):
    with pytest.raises(ConfigError, match="api_key must be printable ASCII") as e:
        OpenAIEncoder("http://host", "m", api_key=key)
    assert key not in str(e.value)
