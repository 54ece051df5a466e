"""One request to the server: keep-alive, time limits, retries, and errors that say enough."""

from __future__ import annotations

import email.utils
import math
import random
import time
from dataclasses import dataclass
from threading import Event
from typing import Any

from toolheads.encoders.openai.answers import server_message
from toolheads.errors import ConfigError, EncoderError, import_extra

_JITTER = random.Random()
"""Its own, so that waiting for a server does not move the caller's random numbers."""

_MOST_RETRY_AFTER_S = 1e6
"""A server may say anything; beyond this is all the same."""


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server, and how often to ask again. All times in seconds."""

    timeout_s: float = 120.0
    """Longest wait for one whole answer. A full batch on a CPU server takes tens of seconds."""
    connect_timeout_s: float = 5.0
    """Longest wait for a connection."""
    deadline_s: float | None = None
    """Longest time for one batch with all its retries and pauses; None: 300, or twice the timeout
    if that is longer."""
    retries: int = 5
    """How often a batch is sent again after 429, 5xx, a lost connection or a timeout."""
    backoff_s: float = 0.5
    """Pause before the first retry; doubles each time, with jitter, up to `most_backoff_s`."""
    most_backoff_s: float = 20.0
    """Longest pause of our own. A server's Retry-After may be longer, within the deadline."""

    def __post_init__(self) -> None:
        for name in ("timeout_s", "connect_timeout_s", "deadline_s", "backoff_s", "most_backoff_s"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                msg = f"patience.{name} must be > 0 and finite, got {value}"
                raise ConfigError(msg)
        if self.retries < 0:
            msg = f"patience.retries must be >= 0, got {self.retries}"
            raise ConfigError(msg)

    @property
    def batch_limit_s(self) -> float:
        """`deadline_s`, or what stands for it: room for a second try of a slow server."""
        return max(300.0, 2 * self.timeout_s) if self.deadline_s is None else self.deadline_s

    def pause_s(self, attempt: int) -> float:
        """Pause after failed attempt 1, 2, …: half of it fixed, half of it random."""
        whole = min(self.backoff_s * 2.0 ** min(attempt - 1, 60), self.most_backoff_s)
        return whole * (0.5 + _JITTER.random() / 2)


class RefusedError(EncoderError):
    """The server says no, and would say it again: a 4xx other than 429, or a redirect.

    Attributes:
        status: The HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class Transport:
    """Posts JSON to one address over kept-alive connections. Safe to use from several threads."""

    def __init__(
        self, url: str, *, key: str, encoder: str, patience: Patience, keep_alive: int
    ) -> None:
        self._httpx = import_extra("httpx", user="encoders.openai", extra="openai")
        self._key, self._encoder, self._patience = key, encoder, patience
        try:
            self._url = self._httpx.URL(url)
        except self._httpx.InvalidURL as e:
            msg = f"url must be an address that httpx takes, got {url!r:.200}: {e}"
            raise ConfigError(msg) from e
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        # Vectors do not compress, and an answer that unpacks to more than was read is no help.
        headers["Accept-Encoding"] = "identity"
        if key:
            headers["Authorization"] = f"Bearer {key}"
        self._client = self._httpx.Client(
            headers=headers,
            limits=self._httpx.Limits(max_connections=None, max_keepalive_connections=keep_alive),
        )

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def error(self, reason: str) -> str:
        """The text of an error, with the encoder before it and never with the key in it."""
        whole = f"{self._encoder} {reason}"
        return whole.replace(self._key, "***") if self._key else whole

    def post(
        self, body: bytes, *, most_bytes: int, stop: Event, limit_s: float | None = None
    ) -> bytes:
        """Send a request until it is answered.

        Args:
            body: JSON.
            most_bytes: Longest answer to read.
            stop: Set when nobody waits for the answer any more; ends the retries.
            limit_s: Longest time for all attempts of this call, where patience has more.

        Returns:
            The body of the answer with status 200.

        Raises:
            RefusedError: If the server refuses the request for good.
            EncoderError: If no attempt brought an answer, or the answer has no end.
        """
        start = time.monotonic()
        whole_s = min(self._patience.batch_limit_s, math.inf if limit_s is None else limit_s)
        end = start + whole_s
        attempt = 0
        while True:
            if self._client.is_closed:
                raise EncoderError(self.error("must be open, got a call after close"))
            if stop.is_set():
                raise EncoderError(self.error("was stopped, since another batch failed"))
            attempt += 1
            cause: Exception | None = None
            asked_s = 0.0
            try:
                status, headers, content = self._once(body, end, most_bytes)
            except self._httpx.HTTPError as e:
                cause, reason = e, self._reason(e, whole_s)
                if not self._is_passing(e):
                    raise EncoderError(self.error(reason)) from e
            except UnicodeError as e:  # from the look-up of a host that can be no name
                raise EncoderError(self.error(f"cannot be reached: {e}")) from e
            else:
                if status == 200:
                    return content
                reason = f"answered {status}: {server_message(content)}"
                if status != 429 and status < 500:
                    if "location" in headers:
                        reason += f" (redirects to {headers['location']})"
                    raise RefusedError(self.error(reason), status)
                asked_s = _retry_after_s(headers.get("retry-after", ""))
            pause_s = max(self._patience.pause_s(attempt), asked_s)
            left_s = end - time.monotonic()
            if attempt > self._patience.retries or pause_s >= left_s or stop.is_set():
                took_s = time.monotonic() - start
                reason += f"; gave up after {attempt} {_times(attempt)} in {took_s:.1f} s"
                if asked_s > max(left_s, 0):
                    reason += f", the server asks to wait {asked_s:.0f} s"
                raise EncoderError(self.error(reason)) from cause
            stop.wait(pause_s)

    def _once(self, body: bytes, end: float, most_bytes: int) -> tuple[int, Any, bytes]:
        """Status, headers and body of one attempt.

        A read timeout starts anew with every byte, so a server that drips is stopped by the
        clock that runs over the whole attempt.
        """
        now = time.monotonic()
        attempt_end = min(end, now + self._patience.timeout_s)
        left_s = max(attempt_end - now, 0.001)
        connect_s = min(self._patience.connect_timeout_s, left_s)
        timeout = self._httpx.Timeout(left_s, connect=connect_s)
        content = bytearray()
        with self._client.stream("POST", self._url, content=body, timeout=timeout) as response:
            for part in response.iter_bytes():
                content += part
                if len(content) > most_bytes:
                    msg = f"must answer at most {most_bytes} bytes, got more"
                    raise EncoderError(self.error(msg))
                if time.monotonic() > attempt_end:
                    msg = "the answer was not complete"
                    raise self._httpx.ReadTimeout(msg)
            return response.status_code, response.headers, bytes(content)

    def _is_passing(self, e: Exception) -> bool:
        """Whether the next attempt may do better."""
        h = self._httpx
        if "CERTIFICATE_VERIFY_FAILED" in str(e):
            return False
        return isinstance(e, (h.TimeoutException, h.NetworkError, h.RemoteProtocolError))

    def _reason(self, e: Exception, whole_s: float) -> str:
        if isinstance(e, self._httpx.ConnectTimeout):
            return f"took no connection within {self._patience.connect_timeout_s:g} s"
        if isinstance(e, self._httpx.TimeoutException):
            return f"gave no answer within {min(self._patience.timeout_s, whole_s):g} s"
        if isinstance(e, self._httpx.ConnectError):
            return f"cannot be reached: {e}"
        return f"lost the connection: {str(e) or type(e).__name__}"


def _times(attempt: int) -> str:
    return "attempt" if attempt == 1 else "attempts"


def _retry_after_s(value: str) -> float:
    """Seconds of a Retry-After header, a number or a date; 0 if it is neither."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return min(max(seconds, 0.0), _MOST_RETRY_AFTER_S) if math.isfinite(seconds) else 0.0
