"""`toolheads rerank`: the tools for one message, and a test of the chat model that chooses them."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from toolheads.data import read_tools
from toolheads.data.datasets import tools_file
from toolheads.domain import Tool
from toolheads.encoders.openai.address import KEY_VARIABLE
from toolheads.entrypoints.cli.printing import printable
from toolheads.entrypoints.cli.progress import ProgressBar
from toolheads.entrypoints.cli.scorers import add_scorer_options, named_scorer
from toolheads.errors import ConfigError, DataError
from toolheads.ports import Scorer
from toolheads.rerank import (
    METHODS,
    ChatSettings,
    LlmSettings,
    OpenAIChat,
    Reranked,
    RerankSettings,
    ToolRegistry,
    chat_settings,
    probe,
    rerank,
)
from toolheads.rerank.conversation import Conversation
from toolheads.rerank.llm.settings import MAIN_VARIABLES, OWN_VARIABLES, read_parameters
from toolheads.rerank.registry import Order
from toolheads.rerank.settings import DEFAULT_TOP_N
from toolheads.sample import dataset_path

_TEST = "test"
_COLUMNS = 100


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "rerank",
        help="choose the tools that a message needs, or test the chat model that does",
        usage="toolheads rerank FILE MESSAGE [options]\n       toolheads rerank test [options]",
        description=(
            "Choose the tools that go into the prompt for a message. `toolheads rerank test` asks "
            "the chat model about five tools and shows what it really said."
        ),
        epilog=(
            f"environment: {OWN_VARIABLES}_URL, _MODEL, _API_KEY and _PARAMETERS name the chat "
            f"model; what they leave open, {MAIN_VARIABLES}_URL and so on say. Without either key, "
            f"{KEY_VARIABLE} is used."
        ),
    )
    parser.add_argument(
        "tools",
        metavar="FILE",
        help="a tools file, a folder with tools.jsonl, or `sample`; `test` tests the chat model",
    )
    parser.add_argument("message", nargs="?", metavar="MESSAGE", help="what the user says")
    parser.add_argument(
        "--conversation",
        type=Path,
        metavar="FILE",
        help="a JSON list of messages with role and content, in place of MESSAGE",
    )
    parser.add_argument("--method", choices=METHODS, default="keyword", help="default: keyword")
    parser.add_argument(
        "--top-n",
        type=int,
        default=DEFAULT_TOP_N,
        metavar="N",
        help=f"tools beside those named or pinned (default: {DEFAULT_TOP_N})",
    )
    parser.add_argument(
        "--pin", default="", metavar="NAME,…", help="tools that are always listed, with commas"
    )
    parser.add_argument(
        "--form",
        choices=("openai", "anthropic", "mcp"),
        help="print the tools as this API lists them",
    )
    parser.add_argument(
        "--order",
        choices=("registration", "rank"),
        default="registration",
        help="order of --form: the same at each turn, or best first (default: registration)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--skip-bad", action="store_true", help="leave out lines that cannot be read"
    )
    _add_chat_options(parser)
    add_scorer_options(parser)
    parser.set_defaults(run=_run)


def _add_chat_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("chat model (--method llm, test)")
    group.add_argument("--chat-url", default="", metavar="URL", help="OpenAI-compatible server")
    group.add_argument(
        "--chat-model", default="", metavar="NAME", help="name the server has for it"
    )
    group.add_argument(
        "--chat-parameters", metavar="JSON", help="further fields of a call, an object"
    )
    group.add_argument(
        "--deadline", type=float, metavar="SECONDS", help="wait for the model (default: 30)"
    )
    group.add_argument(
        "--most-candidates",
        type=int,
        metavar="N",
        help="tools that the model is shown at most (default: 100)",
    )


def _run(args: argparse.Namespace) -> int:
    if args.tools == _TEST and args.message is None and args.conversation is None:
        return _test(args)
    message = _message(args)
    settings = RerankSettings(
        method=args.method,
        top_n=args.top_n,
        pinned=[name for part in args.pin.split(",") if (name := part.strip())],
        llm=_llm_settings(args),
    )
    where = Path(dataset_path(args.tools))
    tools = read_tools(tools_file(where) if where.is_dir() else where, skip_bad=args.skip_bad)
    with ExitStack() as stack:
        scorer = _scorer(args, stack) if args.method == "heads" else None
        chat = stack.enter_context(closing(_model(args))) if args.method == "llm" else None
        chosen = rerank(tools, message, scorer=scorer, chat=chat, settings=settings)
    _print(chosen, tools, args)
    return 0


def _scorer(args: argparse.Namespace, stack: ExitStack) -> Scorer:
    progress = stack.enter_context(ProgressBar()) if args.scorer != "bm25" else None
    named = named_scorer(args, progress=progress)
    if named.encoder is not None:
        stack.enter_context(closing(named.encoder))
    return named.scorer


def _model(args: argparse.Namespace) -> OpenAIChat:
    return OpenAIChat(_chat(args), deadline_s=_llm_settings(args).deadline_s)


def _print(chosen: Reranked, tools: list[Tool], args: argparse.Namespace) -> None:
    report = chosen.report
    if args.form:
        registry = ToolRegistry(tools)
        order: Order = "given" if args.order == "rank" else "registration"
        print(json.dumps(registry.listed(args.form, chosen.tools, order=order), indent=2))
    elif args.json:
        listed = [{"id": t.id, "server": t.server, "name": t.name} for t in chosen.tools]
        print(json.dumps({"tools": listed, "report": report.to_json()}, indent=2))
    else:
        for tool, name in zip(chosen.tools, report.listed, strict=True):
            print(printable(f"{name}  {tool.description}", columns=_COLUMNS))
    if not args.json or report.reason:
        for line in report.lines():
            print(printable(line), file=sys.stderr)


def _test(args: argparse.Namespace) -> int:
    """Exit 0 if the model itself named a tool, whatever the fallback would have done."""
    with closing(_model(args)) as chat:
        probed = probe(chat, _llm_settings(args))
    if args.json:
        verdict = {"usable": probed.is_usable, "right": probed.is_right}
        print(json.dumps(verdict | asdict(probed), indent=2))
        return 0 if probed.is_usable else 1
    print(printable(f"asked    {chat!r}"))
    if probed.error is not None:
        print(printable(f"failed   {probed.error}"))
        return 1
    print(printable(f"said     {probed.reply or 'nothing'}"))
    print(printable(f"chose    {', '.join(probed.names) or 'no tool of the list'}"))
    if not probed.is_usable:
        print("failed   reranking with this model would be reranking by keyword")
        return 1
    right = "the right tool is among them" if probed.is_right else "the right tool is missing"
    print(f"ok       in {probed.took_s:.1f} s; {right}")
    return 0


def _chat(args: argparse.Namespace) -> ChatSettings:
    given = args.chat_parameters
    own = ChatSettings(
        url=args.chat_url,
        model=args.chat_model,
        parameters=None if given is None else read_parameters(given, "chat-parameters"),
    )
    settings = chat_settings(own)
    for name in ("url", "model"):
        if not getattr(settings, name):
            variable = f"{OWN_VARIABLES}_{name.upper()}"
            msg = f"chat-{name} must be given for the chat model, got nothing; or set {variable}"
            raise ConfigError(msg)
    return settings


def _llm_settings(args: argparse.Namespace) -> LlmSettings:
    given = {"deadline_s": args.deadline, "most_candidates": args.most_candidates}
    return LlmSettings(**{name: value for name, value in given.items() if value is not None})


def _message(args: argparse.Namespace) -> Conversation:
    if (args.message is None) == (args.conversation is None):
        msg = "message must be given once, as MESSAGE or as --conversation FILE, got "
        msg += "nothing" if args.message is None else "both"
        raise ConfigError(msg)
    if args.message is not None:
        return str(args.message)
    try:
        read: Any = json.loads(args.conversation.read_bytes())
    except (ValueError, RecursionError) as e:
        msg = f"{args.conversation} must be a JSON list of messages: {e}"
        raise DataError(msg) from e
    if not isinstance(read, list):
        msg = f"{args.conversation} must be a JSON list of messages, got {type(read).__name__}"
        raise DataError(msg)
    return read
