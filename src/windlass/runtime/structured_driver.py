"""The standard loop, ending with a value: for turns whose answer has to have a certain shape."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from windlass.errors import CallerError
from windlass.kernel import ModelReply, StandardDriver, canonical
from windlass.kernel.actions import Action, StartCheckpoint
from windlass.kernel.driver import DriverView
from windlass.kernel.model_call import ModelRequest
from windlass.kernel.outcomes import Finished, FinishedValue
from windlass.kernel.projector import ChatProjector, ProjectorView
from windlass.kernel.states import WaitingModel
from windlass.kernel.value import Json, freeze


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
    """Ends with `FinishedValue` when the model's words are a value that `fits`."""

    def __init__(self, fits: Callable[[Json], bool]) -> None:
        self._fits = fits

    def on_model(
        self,
        view: DriverView,
        waiting: WaitingModel,
        reply: ModelReply,
        text_streamed: bool,  # noqa: FBT001 - the port's shape
    ) -> list[Action]:
        """Read a reply like the standard driver; its last words are read as a value."""
        actions = super().on_model(view, waiting, reply, text_streamed)
        return [self._with_value(action) for action in actions]

    def _with_value(self, action: Action) -> Action:
        if not isinstance(action, StartCheckpoint) or not isinstance(action.then, Finished):
            return action
        try:
            value = read_value(action.then.text)
        except ValueError:
            return action
        if not self._fits(value):
            return action
        return msgspec.structs.replace(action, then=FinishedValue(value=value))


class StructuredProjector(ChatProjector):
    """Asks for the shape in every request."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema

    def project(self, view: ProjectorView) -> ModelRequest:
        """Return the next request."""
        return msgspec.structs.replace(super().project(view), output=self._schema)
