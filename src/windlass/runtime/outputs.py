"""Outputs: the shape that an answer is asked to have, by a Python type or by the schema that a turn recorded."""

from __future__ import annotations

from typing import Any

from windlass.errors import ArgsInvalid, InvalidInput
from windlass.journal import TurnStarted
from windlass.kernel.value import Json, freeze
from windlass.ports import TurnRequest
from windlass.runtime.program import Output, Program
from windlass.tools.arguments import check_against, converted
from windlass.tools.schema import schema_of_hint

FIELD = "output"


class TypedOutput:
    """An answer of a Python type."""

    def __init__(self, hint: Any) -> None:  # noqa: ANN401 - a hint is any object
        self._hint = hint
        schema = schema_of_hint(hint, field="output_type")
        self._plain = schema
        self.schema: Json = freeze(schema)

    def check(self, value: Json) -> object:
        """Return the value as its type."""
        try:
            return converted(FIELD, value, self._hint, self._plain)
        except ArgsInvalid as error:
            raise _not_fitting(error) from None


class SchemaOutput:
    """An answer of which only the schema is known: the turn outlived the code that asked."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema

    def check(self, value: Json) -> object:
        """Return the value, if the schema takes it."""
        try:
            check_against(value, self.schema, FIELD)
        except ArgsInvalid as error:
            raise _not_fitting(error) from None
        return value


def output_of(program: Program, request: TurnRequest, started: TurnStarted) -> Output | None:
    """Return the shape that this turn's answer has to have."""
    if started.output is None:
        return None
    own = program.output
    if own is not None and "output" not in request.overrides and own.schema == started.output:
        return own
    return SchemaOutput(started.output)


def _not_fitting(error: ArgsInvalid) -> InvalidInput:
    # Where arguments are checked, places are called args.output; here there are no arguments.
    words = str(error).replace(f"args.{FIELD}", FIELD)
    field = (error.field or FIELD).replace(f"args.{FIELD}", FIELD)
    return InvalidInput(words, field=field, found=error.found, wanted=error.wanted)
