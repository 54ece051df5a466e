"""Which tools go into the prompt of this turn: by shared words, by a chat model, by a scorer.

Each method ends in a list: what fails falls back to shared words and says so in the report.
"""

from toolheads.rerank.conversation import Conversation, Message, latest_user_text
from toolheads.rerank.keyword import KeywordIndex, KeywordSettings
from toolheads.rerank.llm import (
    ChatModel,
    ChatSettings,
    LlmSettings,
    OpenAIChat,
    Probed,
    chat_settings,
    probe,
)
from toolheads.rerank.mentions import mentioned
from toolheads.rerank.registry import ToolRegistry
from toolheads.rerank.report import Report, Reranked
from toolheads.rerank.reranking import Reranker, rerank
from toolheads.rerank.settings import METHODS, Method, RerankSettings
from toolheads.rerank.turns import Turns

__all__ = [
    "METHODS",
    "ChatModel",
    "ChatSettings",
    "Conversation",
    "KeywordIndex",
    "KeywordSettings",
    "LlmSettings",
    "Message",
    "Method",
    "OpenAIChat",
    "Probed",
    "Report",
    "RerankSettings",
    "Reranked",
    "Reranker",
    "ToolRegistry",
    "Turns",
    "chat_settings",
    "latest_user_text",
    "mentioned",
    "probe",
    "rerank",
]
