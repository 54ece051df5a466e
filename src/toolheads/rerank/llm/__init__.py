"""Asking a chat model which tools a message needs, and trusting nothing that it says."""

from toolheads.rerank.llm.chat import ChatModel, OpenAIChat
from toolheads.rerank.llm.probe import Probed, probe
from toolheads.rerank.llm.settings import ChatSettings, LlmSettings, chat_settings

__all__ = [
    "ChatModel",
    "ChatSettings",
    "LlmSettings",
    "OpenAIChat",
    "Probed",
    "chat_settings",
    "probe",
]
