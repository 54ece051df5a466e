"""Encoder behind any OpenAI-compatible `/v1/embeddings`, vLLM first.

Read in this order: `encoder` (the adapter), `transport` (one request, its retries and errors),
`answers` (what an answer must be), `batching` and `address`.
"""

from toolheads.encoders.openai.encoder import OpenAIEncoder
from toolheads.encoders.openai.transport import Patience

__all__ = ["OpenAIEncoder", "Patience"]
