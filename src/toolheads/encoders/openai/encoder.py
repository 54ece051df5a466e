"""The adapter: packs texts, keeps several requests in flight, puts the rows back in order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Literal

import numpy as np

from toolheads.arrays import Floats
from toolheads.encoders.inputs import checked_texts
from toolheads.encoders.openai.address import api_key_for, embeddings_url
from toolheads.encoders.openai.answers import read_rows
from toolheads.encoders.openai.batching import estimated_tokens, packed
from toolheads.encoders.openai.transport import Patience, RefusedError, Transport
from toolheads.errors import ConfigError, EncoderError
from toolheads.identity import EncoderIdentity

_HARMLESS = "hello"
"""A text that every model takes: it teaches the width, and tells a bad text from a bad request."""

_ABOUT_TEXTS = (400, 413, 422)
"""Refusals that one text of a batch can cause."""

_MOST_ANSWER_BYTES = 1 << 20
"""Of one text: 32 000 entries even when each is written out in decimal."""


class OpenAIEncoder:
    """Encoder behind an OpenAI-compatible server. See `toolheads.ports.Encoder`.

    May be used from several threads at once. The first use of a server whose width is not given
    sends one short text to learn it.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        revision: str = "",
        truncation: int = 0,
        dimensions: int | None = None,
        width: int | None = None,
        api_key: str | None = None,
        concurrency: int = 4,
        batch_tokens: int = 16_384,
        batch_texts: int = 256,
        encoding_format: Literal["base64", "float"] = "base64",
        patience: Patience | None = None,
    ) -> None:
        """Set up, without a request.

        Args:
            url: Address of the server, with or without `/v1`.
            model: Name the server serves the model under.
            revision: Tag or digest of the weights; kept in the identity only, since the server
                does not tell.
            truncation: Cut texts at this many tokens (vLLM's `truncate_prompt_tokens`); 0 leaves
                it to the server, and vLLM then refuses a text that is too long.
            dimensions: Ask for shorter vectors of a Matryoshka model; None does not ask.
            width: The d that is expected; None learns it from the first answer.
            api_key: None reads TOOLHEADS_API_KEY, and for https://api.openai.com OPENAI_API_KEY;
                "" sends none.
            concurrency: Requests in flight for one call of `encode`.
            batch_tokens: Estimated tokens of one request.
            batch_texts: Texts of one request.
            encoding_format: `float` for a server that refuses base64; base64 is smaller by half.
            patience: Time limits and retries; None takes the defaults of `Patience`.

        Raises:
            ConfigError: If a setting breaks its rule.
            MissingExtraError: If httpx is not installed.
        """
        at_least = {"truncation": (truncation, 0), "concurrency": (concurrency, 1)}
        at_least |= {"batch_tokens": (batch_tokens, 1), "batch_texts": (batch_texts, 1)}
        at_least |= {"dimensions": (1 if dimensions is None else dimensions, 1)}
        at_least |= {"width": (1 if width is None else width, 1)}
        for name, (value, least) in at_least.items():
            if value < least:
                msg = f"{name} must be >= {least}, got {value}"
                raise ConfigError(msg)
        if not model:
            msg = f"model must be the name that the server serves, got {model!r}"
            raise ConfigError(msg)
        if dimensions and width and dimensions != width:
            msg = f"width must equal dimensions, got {width} and {dimensions}"
            raise ConfigError(msg)
        if encoding_format not in ("base64", "float"):
            msg = f"encoding_format must be one of base64, float, got {encoding_format!r}"
            raise ConfigError(msg)
        self._url = embeddings_url(url)
        self._name = f"encoder {model!r} at {self._url}"
        self._transport = Transport(
            self._url,
            key=api_key_for(self._url, api_key),
            encoder=self._name,
            patience=patience or Patience(),
            keep_alive=concurrency,
        )
        self._model, self._revision, self._truncation = model, revision, truncation
        self._concurrency = concurrency
        self._batch_tokens, self._batch_texts = batch_tokens, batch_texts
        self._request: dict[str, Any] = {"model": model, "encoding_format": encoding_format}
        if truncation:
            self._request["truncate_prompt_tokens"] = truncation
        if dimensions:
            self._request["dimensions"] = dimensions
        self._width = dimensions or width
        self._learning = Lock()

    def __repr__(self) -> str:
        return f"OpenAIEncoder({self._url!r}, {self._model!r})"

    @property
    def identity(self) -> EncoderIdentity:
        """See `toolheads.ports.Encoder`. Asks the server once if the width is not known yet."""
        return EncoderIdentity(
            model=self._model,
            revision=self._revision,
            pooling="server",
            truncation=self._truncation,
            width=self._known_width(),
            dtype="server",
        )

    def encode(self, texts: Sequence[str]) -> Floats:
        """Embed texts. See `toolheads.ports.Encoder`."""
        checked = checked_texts(texts, encoder=self._name)
        rows = np.empty((len(checked), self._known_width()), dtype=np.float32)
        batches = packed(
            checked,
            most_tokens=self._batch_tokens,
            most_texts=self._batch_texts,
            truncation=self._truncation,
        )
        if len(batches) <= 1 or self._concurrency == 1:
            for batch in batches:
                rows[batch.start : batch.stop] = self._batch(checked, batch, Event())
            return rows
        self._fill(rows, checked, batches)
        return rows

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def _known_width(self) -> int:
        with self._learning:
            if self._width is None:
                self._width = self._post([_HARMLESS], Event()).shape[1]
            return self._width

    def _fill(self, rows: Floats, texts: list[str], batches: list[range]) -> None:
        """Encode batches with several requests in flight.

        The threads are daemons and nobody joins them: after a failure or an interrupt the caller
        goes on at once, although a request in flight may hang until its time limit.
        """
        waiting: SimpleQueue[range] = SimpleQueue()
        done: SimpleQueue[tuple[range, Floats | BaseException]] = SimpleQueue()
        stop = Event()
        for batch in batches:
            waiting.put(batch)

        def work() -> None:
            while not stop.is_set():
                try:
                    batch = waiting.get_nowait()
                except Empty:
                    return
                try:
                    done.put((batch, self._batch(texts, batch, stop)))
                except BaseException as e:  # the caller raises it: a lost one would hang it
                    done.put((batch, e))

        for _ in range(min(self._concurrency, len(batches))):
            Thread(target=work, name="toolheads-openai", daemon=True).start()
        try:
            for _ in batches:
                batch, result = done.get()
                if isinstance(result, BaseException):
                    raise result
                rows[batch.start : batch.stop] = result
        finally:
            stop.set()

    def _batch(self, texts: list[str], batch: range, stop: Event) -> Floats:
        """The rows of one batch; an error names the texts it is about."""
        some = texts[batch.start : batch.stop]
        try:
            return self._post(some, stop)
        except EncoderError as e:
            about_text = isinstance(e, RefusedError) and e.status in _ABOUT_TEXTS
            guilty = self._guilty(some, stop) if about_text and len(texts) > 1 else None
            msg = f"{e}{_where(texts, batch, guilty)}"
            raise EncoderError(msg) from e

    def _guilty(self, texts: list[str], stop: Event) -> int | None:
        """The row of a text that the server refuses by itself; None if it is not one text.

        The longest text is tried first, since length is the usual reason; then the batch is
        halved. At most log2(n) + 3 requests, on a path that fails anyway.
        """
        if self._is_refused([_HARMLESS], stop):
            return None
        if len(texts) == 1:
            return 0
        longest = max(range(len(texts)), key=lambda i: estimated_tokens(texts[i]))
        if self._is_refused([texts[longest]], stop):
            return longest
        first, last = 0, len(texts)
        while last - first > 1:
            middle = (first + last) // 2
            if self._is_refused(texts[first:middle], stop):
                last = middle
            else:
                first = middle
        return first if self._is_refused([texts[first]], stop) else None

    def _is_refused(self, texts: list[str], stop: Event) -> bool:
        """Whether the server refuses exactly this; any other failure is no answer to that."""
        try:
            self._post(texts, stop)
        except RefusedError as e:
            return e.status in _ABOUT_TEXTS
        except EncoderError:
            pass
        return False

    def _post(self, texts: list[str], stop: Event) -> Floats:
        body = json.dumps(self._request | {"input": texts}, ensure_ascii=False).encode()
        most = _MOST_ANSWER_BYTES * (len(texts) + 1)
        content = self._transport.post(body, most_bytes=most, stop=stop)
        try:
            return read_rows(
                content, count=len(texts), width=self._width, truncation=self._truncation
            )
        except EncoderError as e:
            raise EncoderError(self._transport.error(str(e))) from e


def _where(texts: list[str], batch: range, guilty: int | None) -> str:
    """Which texts an error is about, as the caller counts them."""
    if len(texts) == 1:
        return ""
    if guilty is None:
        return f"; batch texts[{batch.start}:{batch.stop}]"
    row = batch.start + guilty
    return f"; texts[{row}] is refused: {len(texts[row])} characters, starting {texts[row][:40]!r}"
