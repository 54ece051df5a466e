"""An embeddings server that answers at once: vectors from words, no model.

    python -m benchmarks.serve.embeddings [--port N] [--width 384]

Both sides are compared over it, so that the encoder's speed is not part of the comparison. A
text's vector is the sum of fixed random rows, one for each of its words, so texts that share words
are near each other and searches find something.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import re
import sys
import zlib
from typing import Any

import numpy as np

from toolheads.arrays import Floats

MODEL = "words"
_ROWS = 1 << 14
_WORD = re.compile(r"\w+")


class Words:
    """Texts to vectors of length 1."""

    def __init__(self, width: int) -> None:
        rows = np.random.default_rng(0).standard_normal((_ROWS, width), dtype=np.float32)
        self.rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def vector(self, text: str) -> Floats:
        words = [zlib.crc32(word.encode()) % _ROWS for word in set(_WORD.findall(text.lower()))]
        vector: Floats = self.rows[sorted(words) or [0]].sum(axis=0)
        vector /= np.linalg.norm(vector)
        return vector


def answer(words: Words, body: dict[str, Any]) -> dict[str, Any]:
    given = body["input"]
    vectors = [words.vector(text) for text in ([given] if isinstance(given, str) else given)]
    as_base64 = body.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": i,
            "embedding": base64.b64encode(v.astype("<f4").tobytes()).decode()
            if as_base64
            else v.tolist(),
        }
        for i, v in enumerate(vectors)
    ]
    usage = {"prompt_tokens": len(data), "total_tokens": len(data)}
    return {"object": "list", "model": MODEL, "data": data, "usage": usage}


async def serve(port: int, width: int) -> None:
    words = Words(width)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.split("\r\n")
                headers = {
                    name.strip().lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in lines)
                }
                raw = await reader.readexactly(int(headers.get("content-length", "0")))
                if first.startswith("GET "):
                    said = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
                else:
                    said = answer(words, json.loads(raw))
                out = json.dumps(said).encode()
                is_last = headers.get("connection", "").lower() == "close"
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
                    + str(len(out)).encode()
                    + (b"\r\nConnection: close" if is_last else b"")
                    + b"\r\n\r\n"
                    + out
                )
                await writer.drain()
                if is_last:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # the other side is gone
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", port, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--width", type=int, default=384)
    args = parser.parse_args()
    try:
        asyncio.run(serve(args.port, args.width))
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
