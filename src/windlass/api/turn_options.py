"""What a caller may say about one turn, checked before anything is kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, TypedDict

import msgspec

from windlass.api.machinery import Machinery
from windlass.errors import InvalidInput
from windlass.guards.limits import check_limit
from windlass.guards.text import check_text
from windlass.kernel import canonical
from windlass.kernel.events import Event
from windlass.kernel.model_call import Generation
from windlass.kernel.value import Json, freeze
from windlass.ports.model import Model
from windlass.runtime.limits import Limits
from windlass.runtime.program import Output, Program, limits_record
from windlass.runtime.services import Approver

EventHandler: TypeAlias = Callable[[Event], Awaitable[None] | None]
"""What is called with each event of a turn: a function, or one that is awaited."""


class TurnOptions(TypedDict, total=False):
    """What may be said about one turn. `context` is JSON; a model is named or registered."""

    turn_id: str | None
    deps: Any
    model: str | Model | None
    prompt: str | None
    limits: Limits | None
    generation: Generation | None
    context: Mapping[str, Json] | None


class WatchOptions(TurnOptions, total=False):
    """What may be said about a turn that is waited for: who is told of its events meanwhile."""

    on_event: EventHandler | None


class RunOptions(WatchOptions, total=False):
    """What may be said about a turn that is run without a runtime."""

    approve: Approver | None


def check_names(options: TurnOptions) -> None:
    """Refuse an option that does not exist, as Python does: a typo must not pass for a default."""
    unknown = sorted(set(options) - set(TurnOptions.__annotations__))
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}")


def check_handler(given: object) -> None:
    """Refuse what cannot be called with an event, before a turn is accepted for it."""
    if given is not None and not callable(given):
        found = type(given).__name__
        raise InvalidInput(
            f"on_event: found {found}, wanted a function of one event",
            field="on_event",
            found=found,
        )


def read_context(given: object) -> dict[str, Any]:
    """Return the context as the request keeps it."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        found = type(given).__name__
        raise InvalidInput(
            f"context: found {found}, wanted a mapping", field="context", found=found
        )
    context: dict[str, Any] = freeze(dict(given), field="context")
    check_limit("metadata_bytes", len(canonical.encode(context)), field="context")
    return context


def _model_name(given: object, machinery: Machinery, program: Program | None) -> str | None:
    if given is None:
        return None
    if isinstance(given, str):
        if given and (program is None or machinery.models.find(given) is not None):
            return given
        raise InvalidInput(
            "model: nobody here has this name; register one with Runtime(models=...)",
            field="model",
        )
    if not callable(getattr(given, "complete", None)):
        found = type(given).__name__
        raise InvalidInput(
            f"model: found {found}, wanted a Model or the name of one", field="model", found=found
        )
    model: Model = given  # type: ignore[assignment]  # it can complete
    machinery.models.add(model)
    return model.name


def read_overrides(
    options: TurnOptions, output: Output | None, machinery: Machinery, program: Program | None
) -> dict[str, Any]:
    """Return what differs from the agent, as plain data."""
    model = _model_name(options.get("model"), machinery, program)
    prompt = options.get("prompt")
    if prompt is not None:
        check_text(prompt, field="prompt")
        check_limit("input_text_bytes", len(prompt.encode()), field="prompt")
    limits, generation = options.get("limits"), options.get("generation")
    for name, found, wanted in (
        ("limits", limits, Limits), ("generation", generation, Generation),
    ):  # fmt: skip
        if found is not None and not isinstance(found, wanted):
            raise InvalidInput(
                f"{name}: found {type(found).__name__}, wanted {wanted.__name__}", field=name
            )
    record: dict[str, Any] = {
        "model": model,
        "prompt": prompt,
        "limits": None if limits is None else limits_record(limits),
        "generation": None if generation is None else _plain(generation),
        "output": None if output is None else output.schema,
    }
    return {name: value for name, value in record.items() if value is not None}


def _plain(generation: Generation) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(generation)
    plain.pop("type", None)
    return plain
