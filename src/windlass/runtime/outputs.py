"""Outputs: the shape that an answer is asked to have, by a Python type or by the schema that a turn recorded.

A turn with an output runs the standard loop, and ends with a value.
"""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.errors import ArgsInvalid, CallerError, InvalidInput
from windlass.journal import TurnStarted
from windlass.kernel import StandardDriver, canonical
from windlass.kernel.model_call import ModelRequest
from windlass.kernel.outcomes import FinishedValue, Outcome, Stopped
from windlass.kernel.projector import ChatProjector, ProjectorView
from windlass.kernel.value import Json, freeze
from windlass.ports import TurnRequest
from windlass.runtime.program import Output, Program
from windlass.tools.arguments import check_against, converted
from windlass.tools.schema import schema_of_hint

FIELD = "output"
# What msgspec says of a field that is not there. Other words without a `wanted` are the type's own, and may quote.
_MISSING = "Object missing required field"


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


def read_value(text: str) -> Json:
    """Return the JSON value that a model answered with, also when it put it into a fence.

    Raises:
        ValueError: there is none.
    """
    words = text.strip()
    if words.startswith("```"):
        words = words.strip("`").removeprefix("json").strip()
    try:
        return freeze(canonical.parse(words))
    except (ValueError, CallerError) as error:
        raise ValueError(f"the answer is not JSON: {error}") from None


class StructuredDriver(StandardDriver):
    """The standard loop, ending with a value of the output's shape: the model's words, or what a tool gave."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def by_words(self, text: str) -> Outcome:
        """Read the model's last words as a value."""
        try:
            value = read_value(text)
            self._output.check(value)
        except ValueError as error:
            return _misshapen("The answer", error)
        return FinishedValue(value=value)

    def by_tool(self, tool: str, value: Json) -> Outcome:
        """Take a tool's value if it has the shape."""
        try:
            self._output.check(value)
        except ValueError as error:
            return _misshapen(f"What {tool} gave", error)
        return super().by_tool(tool, value)


def _misshapen(what: str, error: ValueError) -> Stopped:
    """Return the outcome of a turn whose value does not fit; it says where, and nothing of the value."""
    if not isinstance(error, InvalidInput):
        return Stopped(reason="invalid_output", detail=f"{what} is not JSON.")
    found = error.found if isinstance(error.found, str) else ""
    why = f": found {found}, wanted {error.wanted}" if error.wanted else ""
    if found.startswith(_MISSING):
        why = f": {found}"
    return Stopped(reason="invalid_output", detail=f"{what} does not fit at {error.field}{why}.")


class StructuredProjector(ChatProjector):
    """Asks for the shape in every request."""

    def __init__(self, output: Output) -> None:
        self._schema = output.schema

    def project(self, view: ProjectorView) -> ModelRequest:
        """Return the next request."""
        return msgspec.structs.replace(super().project(view), output=self._schema)
