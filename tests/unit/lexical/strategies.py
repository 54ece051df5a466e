"""Small catalogues and queries that share words, in several scripts, with empty fields."""

from hypothesis import strategies as st

from toolheads.domain import Tool
from toolheads.lexical import FIELDS, FieldSettings, LexicalSettings

WORDS = [
    "mail",
    "mails",
    "sendMail",
    "the",
    "who",
    "weather",
    "HTTPServer",
    "oauth2",
    "天気",
    "雨",
    "!",
]

texts = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
schemas = st.none() | st.dictionaries(
    st.sampled_from(WORDS), texts.map(lambda text: {"description": text}), max_size=2
).map(lambda properties: {"properties": properties})


@st.composite
def catalogues(draw, min_size=1):
    parts = st.tuples(st.sampled_from(WORDS), st.none() | st.sampled_from(WORDS), texts, schemas)
    listed = draw(st.lists(parts, min_size=min_size, max_size=6))
    return [
        Tool(f"t{i}", name, server, text, schema)
        for i, (name, server, text, schema) in enumerate(listed)
    ]


@st.composite
def lexical_settings(draw):
    names = draw(st.lists(st.sampled_from(FIELDS), min_size=1, unique=True))
    k1s, bs = st.sampled_from([0.0, 0.5, 1.5]), st.sampled_from([0.0, 0.3, 1.0])
    combine = draw(st.sampled_from(["sum", "bm25f"]))
    k1 = draw(k1s)
    return LexicalSettings(
        fields=tuple(
            FieldSettings(name, k1 if combine == "bm25f" else draw(k1s), draw(bs)) for name in names
        ),
        stem=draw(st.sampled_from(["none", "light"])),
        idf="tool" if combine == "bm25f" else draw(st.sampled_from(["tool", "field"])),
        combine=combine,
    )


@st.composite
def weights_of(draw, settings):
    return {name: draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])) for name in settings.names}
