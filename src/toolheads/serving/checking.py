"""Bodies and arguments against their schemas: exact types, no unknown fields, one line if wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from toolheads.calls.reasons import reason
from toolheads.serving.api_error import ApiError
from toolheads.serving.plain_checks import plain_check


class Checker:
    """Checks values against one schema.

    Args:
        schema: A JSON Schema of this package.
        name: What is checked, as the client knows it.
    """

    def __init__(self, schema: Mapping[str, Any], *, name: str) -> None:
        Draft202012Validator.check_schema(schema)
        self._validator, self._name = Draft202012Validator(schema), name
        self._is_plainly_right = plain_check(schema)

    def check(self, value: Any) -> dict[str, Any]:
        """The value, an object that keeps the schema.

        Raises:
            ApiError: `invalid_argument`, with the rule that is broken.
        """
        if self._is_plainly_right(value):
            return dict(value)
        error = best_match(self._validator.iter_errors(value))
        if error is not None:
            said = reason(error)
            inner = said.removeprefix("arguments.")
            if inner == said:
                inner = self._name + said.removeprefix("arguments")
            raise ApiError("invalid_argument", inner)
        return dict(value)
