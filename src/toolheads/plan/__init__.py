"""How a catalogue is disclosed to a model: whole, retrieved, by a menu, or made to fit a budget.

    plan = plan_catalogue(tools, context_tokens=32_768, query="weather in Oslo tomorrow")
    plan.strategy, plan.prompt_tokens, plan.reason

Every function takes a plain list of `toolheads.Tool`.
"""

from toolheads.plan.advice import STRATEGIES, Advice, Strategy, advise
from toolheads.plan.call_reply import ToolCall, read_calls
from toolheads.plan.evidence import Evidence
from toolheads.plan.fitting import Dropped, Fit, fit_to_budget
from toolheads.plan.formats import FORMATS, Format, format_sizes, read_block, render
from toolheads.plan.lookup import find_tool
from toolheads.plan.menu import menu_line
from toolheads.plan.okapi import OkapiScorer, okapi_scores, okapi_text
from toolheads.plan.planning import CataloguePlan, plan_catalogue
from toolheads.plan.retrieval import Retrieval, retrieve
from toolheads.plan.selection import Selection, read_selection
from toolheads.plan.settings import PlanSettings
from toolheads.plan.tokens import (
    COMPATIBLE_ESTIMATE,
    ESTIMATE,
    TokenCounter,
    TokenEstimate,
    named_counter,
    token_counter,
)
from toolheads.plan.two_stage import ChatReply, TwoStage, TwoStageResult

__all__ = [
    "COMPATIBLE_ESTIMATE",
    "ESTIMATE",
    "FORMATS",
    "STRATEGIES",
    "Advice",
    "CataloguePlan",
    "ChatReply",
    "Dropped",
    "Evidence",
    "Fit",
    "Format",
    "OkapiScorer",
    "PlanSettings",
    "Retrieval",
    "Selection",
    "Strategy",
    "TokenCounter",
    "TokenEstimate",
    "ToolCall",
    "TwoStage",
    "TwoStageResult",
    "advise",
    "find_tool",
    "fit_to_budget",
    "format_sizes",
    "menu_line",
    "named_counter",
    "okapi_scores",
    "okapi_text",
    "plan_catalogue",
    "read_block",
    "read_calls",
    "read_selection",
    "render",
    "retrieve",
    "token_counter",
]
