"""The trained part: two heads, their file format, and where heads files are found."""

from toolheads.heads.architecture import Architecture
from toolheads.heads.bundle import Heads, HeadsHeader, Views
from toolheads.heads.digests import PackagedHeads, packaged_heads
from toolheads.heads.files import load_heads, save_heads
from toolheads.heads.fusion import Fusion
from toolheads.heads.head import Head

__all__ = [
    "Architecture",
    "Fusion",
    "Head",
    "Heads",
    "HeadsHeader",
    "PackagedHeads",
    "Views",
    "load_heads",
    "packaged_heads",
    "save_heads",
]
