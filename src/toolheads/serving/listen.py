"""Running the app on a port: bind first, say the address, serve, and end cleanly on a signal."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator

import uvicorn
from starlette.applications import Starlette

from toolheads.errors import ConfigError
from toolheads.serving.access import KEY_VARIABLE, Keys
from toolheads.serving.settings import LOOPBACK, ServeSettings

_BACKLOG = 2048
_KEEP_ALIVE_S = 75

logger = logging.getLogger(__name__)


def check_exposure(host: str, keys: Keys) -> None:
    """Refuse to let other machines in without a key.

    Args:
        host: The address to listen on.
        keys: Keys of the server.

    Raises:
        ConfigError: If other machines could connect and there is no key.
    """
    if not is_loopback(host) and not len(keys):
        msg = (
            f"host must be one of {', '.join(LOOPBACK)} where there is no key, got {host}; give "
            f"--keys FILE or set {KEY_VARIABLE}"
        )
        raise ConfigError(msg)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address."""
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_names(host: str) -> tuple[str, ...]:
    """Names that clients use for a server on an address, to go with those of the loopback.

    A server on every address of its machine cannot know them: there is a key then, which a web
    page does not have, so that any name is allowed.
    """
    if host in ("", "0.0.0.0", "::"):
        return ("*",)
    return (host,)


def bind(host: str, port: int) -> socket.socket:
    """A socket on an address; port 0 takes a free one.

    Raises:
        ConfigError: If the port is taken, or the address is none of this machine.
    """
    if not 0 <= port <= 65535:
        msg = f"port must be between 0 and 65535, got {port}"
        raise ConfigError(msg)
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as e:
        msg = f"host must be an address of this machine, got {host!r}: {e.strerror or e}"
        raise ConfigError(msg) from e
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name != "nt":  # where it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as e:
        listener.close()
        msg = f"port must be free on {host}, got {port}: {e.strerror or e}"
        raise ConfigError(msg) from e
    return listener


def address_of(listener: socket.socket, host: str) -> str:
    """The address of a socket, as a client on this machine would write it."""
    port = listener.getsockname()[1]
    name = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def run_http(
    app: Starlette,
    listener: socket.socket,
    *,
    settings: ServeSettings,
    trusted_proxies: Collection[str] = (),
    when_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT; requests in flight end first.

    Args:
        app: What is served.
        listener: A bound socket, which is closed at the end.
        settings: Of the server.
        trusted_proxies: Addresses of proxies whose X-Forwarded-For is believed.
        when_ready: Called as soon as requests are answered.
    """
    config = uvicorn.Config(
        app,
        # The quicker parser, where it is installed, takes headers without an end into memory.
        http="h11",
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies) or None,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(settings.drain_s)),
        backlog=_BACKLOG,
    )
    logging.getLogger("uvicorn.error").addFilter(_quiet)
    _Server(config, when_ready).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Ends with its work done, where the library would raise the signal anew."""

    def __init__(self, config: uvicorn.Config, when_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._when_ready = when_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._when_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _quiet(record: logging.LogRecord) -> bool:
    """Leave out what clients cause: bytes that are no HTTP are answered with 400."""
    return not record.getMessage().startswith("Invalid HTTP request received")
