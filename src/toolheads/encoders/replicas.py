"""Several servers of one model as one encoder: each takes work when it is free, none is waited for.

Texts are cut into pieces that lie in one queue. Every server takes the next piece when it is done
with the last, so a fast one does more. A piece whose server failed goes back into the queue; when
the queue is empty, a server that is idle takes a slow piece of another as well, and the first
answer counts. Knows the port `Encoder`, no HTTP.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolheads.arrays import Floats
from toolheads.encoders.inputs import checked_texts
from toolheads.errors import BackboneMismatchError, ConfigError, EncoderError
from toolheads.identity import PROBE_TEXTS, EncoderIdentity, check_probe
from toolheads.ports import Encoder

_log = logging.getLogger(__name__)

_MOST_FAILURES = 3
"""A piece that fails so often at servers that answer other texts is at fault itself."""

_SLOW = 4.0
"""A piece that is out for so many times as long as is usual is slow."""

_LONGEST_PAUSE_S = 60.0


@dataclass(eq=False)
class _Call:
    """One call of `encode`."""

    rows: Floats
    left: int
    error: BaseException | None = None


@dataclass(eq=False)
class _Piece:
    """Texts that go to a server together."""

    call: _Call
    start: int
    texts: list[str]
    takers: set[str] = field(default_factory=set)
    taken_at: float = 0.0
    failures: int = 0
    is_done: bool = False


@dataclass(eq=False)
class _Server:
    """One server, and how it is."""

    name: str
    encoder: Encoder
    texts: int = 0
    reason: str = ""
    """Why it is left out; empty while it works."""
    check_at: float = 0.0
    """When it is asked again."""
    pause_s: float = 0.0
    is_refused: bool = False
    """Whether it has other weights: it is never asked again."""


class ReplicaEncoder:
    """Encoder over several servers of one model. See `toolheads.ports.Encoder`.

    Every server is asked for the probe texts before it gets work, at the start and after a failure:
    one with other weights is refused. May be used from several threads at once.

    Args:
        encoders: Name of each server, such as its address → its encoder; owned by this object.
        in_flight: Pieces that one server has at once.
        piece_texts: Texts of a piece.
        steal_s: A piece that is out for longer, and for much longer than is usual, is given to an
            idle server as well.
        retry_s: How long a server that failed is left alone; doubles while it fails.
        wait_s: How long no server at all may work before a call fails.

    Raises:
        ConfigError: If there is no encoder, or a number is below its least.
    """

    def __init__(
        self,
        encoders: Mapping[str, Encoder],
        *,
        in_flight: int = 4,
        piece_texts: int = 64,
        steal_s: float = 2.0,
        retry_s: float = 1.0,
        wait_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        least = {"encoders": len(encoders), "in_flight": in_flight, "piece_texts": piece_texts}
        for name, value in least.items():
            if value < 1:
                msg = f"{name} must be at least 1, got {value}"
                raise ConfigError(msg)
        self._servers = [_Server(name, encoder) for name, encoder in encoders.items()]
        self._in_flight, self._piece_texts = in_flight, piece_texts
        self._steal_s = steal_s
        self._retry_s, self._wait_s, self._clock = retry_s, wait_s, clock
        self._changed = threading.Condition()
        self._queue: deque[_Piece] = deque()
        self._taken: list[_Piece] = []
        self._starting = threading.Lock()
        self._identity: EncoderIdentity | None = None
        self._probe: Floats | None = None
        self._first = ""
        self._usual_s = 0.0
        self._none_since: float | None = None
        self._is_closed = False

    @property
    def identity(self) -> EncoderIdentity:
        """See `toolheads.ports.Encoder`. Asks the servers when it is first called."""
        self._start()
        assert self._identity is not None
        return self._identity

    @property
    def served(self) -> Mapping[str, int]:
        """Texts that each server embedded."""
        return {server.name: server.texts for server in self._servers}

    @property
    def troubles(self) -> Mapping[str, str]:
        """Server that is left out → why."""
        return {server.name: server.reason for server in self._servers if server.reason}

    def encode(self, texts: Sequence[str]) -> Floats:
        """See `toolheads.ports.Encoder`."""
        width = self.identity.width
        name = f"encoder {self.identity.model!r} at {len(self._servers)} servers"
        checked = checked_texts(texts, encoder=name)
        starts = range(0, len(checked), self._piece_texts)
        call = _Call(np.empty((len(checked), width), np.float32), len(starts))
        pieces = [_Piece(call, at, checked[at : at + self._piece_texts]) for at in starts]
        with self._changed:
            self._queue.extend(pieces)
            self._changed.notify_all()
            while call.left and call.error is None:
                self._refuse_closed()
                self._changed.wait(timeout=0.5)
                self._fail_if_none_works(call)
            if call.error is not None:
                self._forget(call)
        if isinstance(call.error, EncoderError):
            raise EncoderError(str(call.error)) from call.error
        if call.error is not None:
            raise call.error
        return call.rows

    def close(self) -> None:
        """See `toolheads.ports.Encoder`. An answer that is awaited is not waited for."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for server in self._servers:
            server.encoder.close()

    def _start(self) -> None:
        """Ask every server what it is, and start the threads; once.

        Raises:
            EncoderError: If none answers.
            BackboneMismatchError: If two have different weights or settings.
        """
        with self._starting:
            self._refuse_closed()
            if self._identity is not None:
                return
            began = self._clock()
            self._check_all()
            while self._identity is None:
                if self._clock() - began >= self._wait_s or self._is_closed:
                    raise EncoderError(self._none_works())
                time.sleep(self._retry_s)
                self._check_all()
            for server in self._servers:
                if server.is_refused:
                    raise BackboneMismatchError(server.reason)
            for server in self._servers:
                for _ in range(self._in_flight):
                    threading.Thread(
                        target=self._work,
                        args=(server,),
                        name=f"toolheads-replica {server.name}",
                        daemon=True,
                    ).start()

    def _check_all(self) -> None:
        # The first that answers says what the others must be.
        checks = [threading.Thread(target=self._check, args=(s,)) for s in self._servers]
        for check in checks:
            check.start()
        for check in checks:
            check.join()

    def _compare(self, server: _Server, identity: EncoderIdentity, probe: Floats) -> None:
        """Compare a server with the first that answered.

        Raises:
            BackboneMismatchError: If its settings or weights are others.
        """
        with self._changed:
            if self._identity is None or self._probe is None:
                self._identity, self._probe, self._first = identity, probe, server.name
        if identity != self._identity:
            msg = f"server {server.name} must be {self._identity}, got {identity}"
            raise BackboneMismatchError(msg)
        check_probe(self._probe, probe, owner=f"server {self._first}")

    def _check(self, server: _Server) -> None:
        """Ask a server for the probe texts; note what is wrong with it, or that nothing is."""
        try:
            probe, identity = server.encoder.encode(PROBE_TEXTS), server.encoder.identity
            self._compare(server, identity, probe)
        except BackboneMismatchError as e:
            server.is_refused = True
            self._note(server, f"server {server.name}: {e}")
        except EncoderError as e:
            self._note(server, str(e))
        else:
            self._note(server, "")

    def _note(self, server: _Server, reason: str) -> None:
        with self._changed:
            if self._is_closed:
                return
            if reason and not server.reason:
                _log.warning("server %s is left out: %s", server.name, reason)
            elif server.reason and not reason:
                _log.warning("server %s is back", server.name)
            server.reason = reason
            doubled = min(_LONGEST_PAUSE_S, 2 * server.pause_s)
            server.pause_s = max(self._retry_s, doubled) if reason else 0.0
            server.check_at = self._clock() + server.pause_s
            works = any(not one.reason for one in self._servers)
            self._none_since = None if works else self._none_since or self._clock()
            self._changed.notify_all()

    def _work(self, server: _Server) -> None:
        while True:
            with self._changed:
                piece = None
                while piece is None:
                    if self._is_closed or server.is_refused:
                        return
                    is_due = bool(server.reason) and self._clock() >= server.check_at
                    if is_due:
                        server.check_at = self._clock() + _LONGEST_PAUSE_S  # for this thread alone
                        break
                    if not server.reason:
                        piece = self._next(server)
                    if piece is None:
                        self._changed.wait(timeout=min(0.5, self._retry_s))
            if piece is None:
                self._check(server)
            else:
                self._ask(server, piece)

    def _next(self, server: _Server) -> _Piece | None:
        """The next piece, or one that others have had for much longer than is usual."""
        now = self._clock()
        if self._queue:
            piece = self._queue.popleft()
            piece.taken_at = now
            self._taken.append(piece)
        else:
            patience_s = max(self._steal_s, _SLOW * self._usual_s)
            slow = (
                p
                for p in self._taken
                if now - p.taken_at > patience_s and server.name not in p.takers
            )
            found = min(slow, key=lambda p: p.taken_at, default=None)
            if found is None:
                return None
            piece = found
        piece.takers.add(server.name)
        return piece

    def _ask(self, server: _Server, piece: _Piece) -> None:
        began = self._clock()
        try:
            rows = server.encoder.encode(piece.texts)
        except EncoderError as e:
            self._check(server)
            self._failed(server, piece, e)
        except BaseException as e:  # whoever waits for it raises it: a lost one would hang it
            self._end(piece, e)
        else:
            with self._changed:
                took_s = self._clock() - began
                self._usual_s += (took_s - self._usual_s) / 8 if self._usual_s else took_s
                if not piece.is_done and piece.call.error is None:
                    piece.call.rows[piece.start : piece.start + len(rows)] = rows
                    server.texts += len(rows)
                    self._end(piece, None)

    def _failed(self, server: _Server, piece: _Piece, error: EncoderError) -> None:
        with self._changed:
            piece.takers.discard(server.name)
            if piece.is_done or piece.call.error is not None:
                return
            # A server that answers the probe texts is not what is wrong.
            piece.failures += not server.reason
            if piece.failures < _MOST_FAILURES:
                if not piece.takers and piece in self._taken:
                    self._taken.remove(piece)
                    self._queue.appendleft(piece)
                    self._changed.notify_all()
                return
        self._end(piece, error)

    def _end(self, piece: _Piece, error: BaseException | None) -> None:
        with self._changed:
            if piece.is_done:
                return
            piece.is_done = True
            if piece in self._taken:
                self._taken.remove(piece)
            piece.call.left -= 1
            piece.call.error = piece.call.error or error
            self._changed.notify_all()

    def _forget(self, call: _Call) -> None:
        self._queue = deque(piece for piece in self._queue if piece.call is not call)
        self._taken = [piece for piece in self._taken if piece.call is not call]

    def _fail_if_none_works(self, call: _Call) -> None:
        since = self._none_since
        if call.left and since is not None and self._clock() - since >= self._wait_s:
            call.error = call.error or EncoderError(self._none_works())

    def _none_works(self) -> str:
        reasons = "; ".join(server.reason for server in self._servers)
        return f"at least one server must work, got none of {len(self._servers)}: {reasons}"

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise EncoderError("the servers must be open, got a call after close")
