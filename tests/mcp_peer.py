"""A small MCP server over stdio that can misbehave, in plain Python so that it starts at once.

It speaks the handshake of 2025-11-25. One JSON argument says what it does:

    pages    list of pages of tools/list, each a list of entries as they go over the wire
    raw      text put on the wire in place of the answer to tools/list, `{id}` filled in
    long     characters of the description of one more tool, `long`
    strict   ends at a first message that is no handshake
    loop     each page is followed by the first
    hang     "start" or "list": that request is never answered
    stderr   written to standard error at the start
    exit     exit code; ends after the text above, before any answer
    log      file that gets a line for each tools/call that arrives
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def entry(name: str, **fields: Any) -> dict[str, Any]:
    """An entry of a list of tools."""
    return {"name": name, "inputSchema": {"type": "object"}, **fields}


TOOLS = [entry(name) for name in ("echo", "crash", "hang", "fail", "pid", "set_pages", "noise")]


def command(**behaviour: Any) -> dict[str, Any]:
    """The source of a catalogue that starts this server."""
    return {
        "kind": "mcp",
        "command": sys.executable,
        "args": ["-S", "-E", __file__, json.dumps(behaviour)],
    }


def main() -> None:
    behaviour = json.loads(sys.argv[1])
    pages = behaviour.get("pages", [TOOLS])
    if long := behaviour.get("long"):
        pages[0].append(entry("long", description="x" * long))
    sys.stderr.write(behaviour.get("stderr", ""))
    sys.stderr.flush()
    if "exit" in behaviour:
        sys.exit(behaviour["exit"])
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        params = message.get("params") or {}
        if behaviour.get("strict") and method == "server/discover":
            sys.exit("expected a handshake")
        if number is None:
            continue
        if method == "initialize":
            if behaviour.get("hang") == "start":
                continue
            tools = {"tools": {"listChanged": True}}
            info = {"name": "peer", "version": "1"}
            say(
                number,
                result={
                    "protocolVersion": "2025-11-25",
                    "capabilities": tools,
                    "serverInfo": info,
                },
            )
        elif method == "tools/list":
            if behaviour.get("hang") == "list":
                continue
            if "raw" in behaviour:
                sys.stdout.write(behaviour["raw"].replace("{id}", json.dumps(number)) + "\n")
                sys.stdout.flush()
                continue
            page = int(params.get("cursor") or 0)
            more = {"nextCursor": str(page + 1)} if page + 1 < len(pages) else {}
            if behaviour.get("loop"):
                more = {"nextCursor": "0"}
            say(number, result={"tools": pages[page] if pages else [], **more})
        elif method == "tools/call":
            if log := behaviour.get("log"):
                with Path(log).open("a") as file:
                    file.write(json.dumps(params) + "\n")
            pages = called(number, params, pages)
        else:
            say(number, error={"code": -32601, "message": f"no {method}"})


def called(number: Any, params: dict[str, Any], pages: Any) -> Any:
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "echo":
        if wait_s := arguments.get("wait_s"):
            time.sleep(wait_s)
        text(number, json.dumps(arguments), structuredContent=arguments)
    elif name == "crash":
        sys.stderr.write("out of memory\n")
        sys.stderr.flush()
        os._exit(7)
    elif name == "fail":
        text(number, "no such city", isError=True)
    elif name == "pid":
        text(number, str(os.getpid()))
    elif name == "set_pages":
        pages = arguments["pages"]
        sys.stdout.write('{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n')
        text(number, "done")
    elif name == "noise":
        sys.stdout.write("debug: this is no message\n")
        sys.stderr.write("debug: a long word " + "x" * 100_000 + "\n")
        text(number, "done")
    elif name == "odd":
        say(number, result={"content": "no list"})
    elif name != "hang":
        say(number, error={"code": -32602, "message": f"Unknown tool: {name}"})
    return pages


def text(number: Any, words: str, **more: Any) -> None:
    say(number, result={"content": [{"type": "text", "text": words}], **more})


def say(number: Any, **body: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": number, **body}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
