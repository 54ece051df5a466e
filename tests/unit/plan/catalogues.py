"""Small catalogues of the tests of plans, and a chat model that says what it is told to."""

from __future__ import annotations

from toolheads.domain import Tool


def tool(name, description="", parameters=(), *, required=(), server=None, id=None):
    """A tool whose parameters are (name, description) pairs."""
    properties = {
        key: {"type": "string", **({"description": said} if said else {})}
        for key, said in parameters
    }
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return Tool(id or (f"{server}/{name}" if server else name), name, server, description, schema)


LIBRARY = [
    tool(
        "borrow_book",
        "Lend a book to a reader. The book must be on the shelf.",
        [("isbn", "Number on the back"), ("days", "For how many days it is lent, at most 30")],
        required=["isbn"],
    ),
    tool("return_book", "Take a book back", [("isbn", "Number on the back")], required=["isbn"]),
    tool(
        "find_book",
        "Find books by words of their titles",
        [("words", "Words of the title"), ("shelf", "Only books of this shelf")],
        required=["words"],
    ),
    tool("openingHours", "When the library opens", [("day", "A day of the week")]),
    tool("pay_fine", "Pay what is owed for late books", [("reader", "Who pays")]),
    tool("ping"),
]


def numbered(n, description="Does thing number {i}."):
    """n tools that differ by a number."""
    return [tool(f"thing_{i}", description.format(i=i), [("x", "")]) for i in range(n)]


class Script:
    """A chat model that gives its replies one after the other, and keeps what it was asked."""

    def __init__(self, *replies):
        self._replies = list(replies)
        self.asked = []

    def __call__(self, messages, *, max_tokens, temperature):
        self.asked.append((messages, max_tokens, temperature))
        return self._replies.pop(0)
