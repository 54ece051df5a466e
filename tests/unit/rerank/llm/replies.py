"""Replies of chat models, and the names that they choose."""

from hypothesis import strategies as st

NAMES = ["mow_lawn", "prune_tree", "list_beds", "getFrostWarning"]

_BOTH = ["mow_lawn", "prune_tree"]
_ONE = ["mow_lawn"]

REPLIES = {
    "array": ('["mow_lawn", "prune_tree"]', _BOTH),
    "order": ('["prune_tree", "mow_lawn"]', ["prune_tree", "mow_lawn"]),
    "what was asked for": ('{"tools": ["mow_lawn", "prune_tree"]}', _BOTH),
    "lines": ('[\n  "mow_lawn",\n  "prune_tree"\n]', _BOTH),
    "fence": ('```json\n["mow_lawn"]\n```', _ONE),
    "fence without a language": ('```\n["mow_lawn"]\n```', _ONE),
    "fence on one line": ('```["mow_lawn"]```', _ONE),
    "fence on one line with a language": ('```json ["mow_lawn"]```', _ONE),
    "fence without an end": ('```json\n["mow_lawn"]', _ONE),
    "fence in the middle": ('Sure:\n```json\n["mow_lawn"]\n```\nHope it helps', _ONE),
    "carriage returns": ('```json\r\n["mow_lawn"]\r\n```', _ONE),
    "prose": ('I would take ["mow_lawn", "prune_tree"]. Good luck!', _BOTH),
    "prose in brackets": ('Of [garden tools] I take ["mow_lawn"]', _ONE),
    "footnote": ('As said [1], ["mow_lawn"]', _ONE),
    "an apostrophe in prose": ("I don't know [it's hard], but [\"mow_lawn\"]", _ONE),
    "a quotation mark in prose": ('A 5" hose. ["mow_lawn"]', _ONE),
    "a bracket that stays open": ('I looked [at all tools, then chose ["mow_lawn"]', _ONE),
    "a bracket too many": (']["mow_lawn"]]', _ONE),
    "thoughts": ('<think>["prune_tree"] or so</think>["mow_lawn"]', _ONE),
    "thoughts that the template began": ('maybe ["prune_tree"]</think>\n["mow_lawn"]', _ONE),
    "thoughts without an end": ('<think>I could take ["mow_lawn"]', []),
    "thoughts of another name": ('<Reasoning>["prune_tree"]</Reasoning>["mow_lawn"]', _ONE),
    "cut off after a comma": ('["mow_lawn",', _ONE),
    "cut off in a name": ('["mow_lawn", "prune_tr', _ONE),
    "cut off in an object": ('{"tools": ["mow_lawn", "prune_tree"', _BOTH),
    "cut off in an escape": ('["mow_lawn", "prune\\u00', _ONE),
    "cut off in a name of Python's": ("['prune_tree', 'mow_lawnx", ["prune_tree"]),
    "comma at the end": ('["mow_lawn", "prune_tree",]', _BOTH),
    "single quotes": ("['mow_lawn', 'prune_tree']", _BOTH),
    "another field": ('{"selected": ["mow_lawn"]}', _ONE),
    "an unknown field": ('{"best_ones": ["mow_lawn"]}', _ONE),
    "a reason before": ('{"reason": ["x"], "tools": ["mow_lawn"]}', _ONE),
    "a rejected tool before": ('{"rejected": ["prune_tree"], "tools": ["mow_lawn"]}', _ONE),
    "objects": ('[{"name": "mow_lawn", "why": "grass"}, {"name": "prune_tree"}]', _BOTH),
    "objects as of a call": ('[{"type": "function", "function": {"name": "mow_lawn"}}]', _ONE),
    "one object": ('{"name": "mow_lawn", "arguments": {}}', _ONE),
    "nested arrays": ('[["mow_lawn"], ["prune_tree"]]', _BOTH),
    "strangers": ('["dig_hole", "mow_lawn", "fly"]', _ONE),
    "strangers alone": ('["dig_hole", "fly"]', []),
    "twice": ('["mow_lawn", "mow_lawn"]', _ONE),
    "other types": ('["mow_lawn", 4, null, true, 1.5, {}, "prune_tree"]', _BOTH),
    "not a number": ('[NaN, "mow_lawn"]', _ONE),
    "other case": ('["Mow_Lawn", "GETFROSTWARNING"]', ["mow_lawn", "getFrostWarning"]),
    "space around": ('[" mow_lawn "]', _ONE),
    "backticks": ('["`mow_lawn`"]', _ONE),
    "escaped": ('["mow\\u005flawn"]', _ONE),
    "escaped as in Markdown": ('["mow\\_lawn", "prune_tree"]', _BOTH),
    "a byte order mark": ('\ufeff["mow_lawn"]', _ONE),
    "two arrays": ('["mow_lawn"]\n["prune_tree"]', _ONE),
    "an array of numbers first": ('[1, 2] ["mow_lawn"]', _ONE),
    "none of them": ("[]", []),
    "none of them, as was asked for": ('{"tools": []}', []),
    "none of them, then a thought": ('[] or maybe ["mow_lawn"]', []),
    "names in prose": ("I would not use mow_lawn", []),
    "names in a list of prose": ("- mow_lawn\n- prune_tree", []),
    "a refusal": ("I'm sorry, but I can't help with that.", []),
    "an object without names": ('{"answer": "dunno"}', []),
    "nothing": ("", []),
    "white space": (" \n\t ", []),
    "a number": ("7", []),
    "deep": ("[" * 100_000, []),
    "deep and closed": ("[" * 5_000 + '"mow_lawn"' + "]" * 5_000, []),
    "a tag": ("/no_think", []),
    "markup": ("<html><body>502 Bad Gateway</body></html>", []),
}
"""What it is → what the model says, what it chooses."""


def _containers(inner):
    return st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.sampled_from(NAMES) | st.text(max_size=5),
    _containers,
)
"""Values of JSON that mention the names."""
