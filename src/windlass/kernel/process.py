"""The process driver: a turn whose work is one function of the host, and whose outcome is what that returns.

Law 1. The function is one effect, `RunCode`. What it does on the way is recorded under that effect, by its host.
Law 2. It asks no model and calls no tools: nothing but the function's own end moves the turn.
"""

from __future__ import annotations

from windlass.kernel import events
from windlass.kernel.actions import Action, EmitEvent, Finish, StartCode
from windlass.kernel.driver import DriverView
from windlass.kernel.outcomes import FinishedValue, HandedOff, Outcome, Stopped
from windlass.kernel.responses import CodeResult, Failure
from windlass.kernel.value import Json

PROCESS = "process"
_ASKED_NONE = "A process asks no model and calls no tool."


class ProcessDriver:
    """Runs one function, by its name, and ends the turn with its value."""

    handles: frozenset[str] = frozenset()

    def __init__(self, name: str) -> None:
        self._name = name

    def prepare(self, view: DriverView) -> list[Action]:  # noqa: ARG002 - the port's shape
        """Run the function; its host has it."""
        return [StartCode(language=PROCESS, code=self._name)]

    def on_code(
        self,
        view: DriverView,  # noqa: ARG002 - the port's shape
        driver_state: Json,  # noqa: ARG002
        result: CodeResult | Failure,
    ) -> list[Action]:
        """End the turn as the function ended; one that did not finish goes on in the next turn, with the value."""
        if isinstance(result, CodeResult) and result.error is None:
            if result.finished:
                return [Finish(outcome=FinishedValue(value=result.value))]
            return [Finish(outcome=HandedOff(target=self._name, task=result.value))]
        detail = result.message if isinstance(result, Failure) else result.error or ""
        error = events.Error(message=detail, code="process_failed")
        return [EmitEvent(event=error), Finish(outcome=_failed(detail))]

    def on_model(self, *_: object, **__: object) -> list[Action]:
        """Answer what this mode never asks for."""
        return [Finish(outcome=_failed(_ASKED_NONE))]

    on_tools = on_model

    def close(self, *_: object, **__: object) -> list[Action]:
        """There is no call to close."""
        return []


def _failed(detail: str) -> Outcome:
    return Stopped(reason="runtime_error", detail=detail)
