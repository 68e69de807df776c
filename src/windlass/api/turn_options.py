"""What a caller says about one turn, its input and its options: checked before anything is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import msgspec

from windlass.errors import CallerError, InvalidInput
from windlass.guards import check_limit, check_text
from windlass.guards.media import check_file_name, check_media_type
from windlass.guards.secret import REGISTERED
from windlass.kernel import Attachment, Event, Generation, Part, Text, canonical
from windlass.kernel.value import EMPTY_DICT, Json, check_instance, freeze
from windlass.ports import Model, Store, Upload
from windlass.ports.prompt import Contribution, plain_pieces, read_pieces
from windlass.runtime.limits import Limits
from windlass.runtime.program import Output, Program, limits_record, read_finish

if TYPE_CHECKING:
    from windlass.api.adapters import KnownModels
    from windlass.ports.policy import Approver

InputPart: TypeAlias = str | Text | Attachment | Upload
Input: TypeAlias = str | InputPart | Sequence[InputPart]
"""What a turn is given: text, an attachment, or a list of both."""
EventHandler: TypeAlias = Callable[[Event], Awaitable[None] | None]
"""A function, sync or async, that is called with each event of a turn."""


class TurnSettings(TypedDict, total=False):
    """What a caller may say about one turn, apart from its deps.

    turn_id: makes the turn arrive once: a second call with the same id and input returns the same turn.
    model: another model than the agent's, for this turn: a Model, or the name of a registered one.
    prompt: text that replaces the agent's instructions; or `Contribution`s that add to slots of the prompt, or replace them.
    limits: other limits than the agent's.
    generation: other sampling settings than the agent's.
    finish: how this turn has to finish, as `Agent(finish=...)` says it.
    context: JSON that instructions, tools and plugins can read, at most 16 KB.
    by: who asks for the turn; kept with it, and no part of what makes two requests equal.
    """

    turn_id: str | None
    model: str | Model | None
    prompt: str | Contribution | Sequence[Contribution] | None
    limits: Limits | None
    generation: Generation | None
    finish: str | Sequence[str] | None
    context: Mapping[str, Json] | None
    by: str | None


class TurnOptions(TurnSettings, total=False):
    """What a caller may say about one turn.

    deps: what the turn's tools work with, instead of what `Runtime(deps=...)` makes.
    """

    deps: Any


class WatchOptions(TurnOptions, total=False):
    """What a caller may say about a turn that it waits for.

    on_event: called with each event of the turn as it happens.
    """

    on_event: EventHandler | None


class RunOptions(TurnSettings, total=False):
    """What a caller may say about a turn that runs without a runtime, apart from its deps.

    on_event: called with each event of the turn as it happens.
    approve: answers the approvals that tools ask for; True or `Approve` allows.
    """

    on_event: EventHandler | None
    approve: Approver | None


_NAMES = frozenset(TurnOptions.__annotations__)
_OVERRIDES = frozenset({"model", "prompt", "limits", "generation", "finish"})


def check_names(options: TurnOptions) -> None:
    """Refuse an option that does not exist, as Python does: a typo must not pass for a default."""
    if not _NAMES.issuperset(options):
        raise TypeError(f"unexpected keyword argument {min(set(options) - _NAMES)!r}")


def check_handler(given: object) -> None:
    """Refuse a handler that cannot be called, before a turn is accepted for it."""
    if given is not None and not callable(given):
        raise InvalidInput.at("on_event", type(given).__name__, "a function of one event")


def read_by(given: object) -> str | None:
    """Return who asks for a turn, as it is kept."""
    if given is None:
        return None
    name = check_text(given, field="by")
    check_limit("metadata_bytes", len(name.encode()), field="by")
    return REGISTERED.clean(name)


def read_context(given: object) -> dict[str, Any]:
    """Return the context as the request keeps it."""
    if given is None:
        return EMPTY_DICT
    if not isinstance(given, Mapping):
        raise InvalidInput.at("context", type(given).__name__, "a mapping")
    context: dict[str, Any] = freeze(dict(given), field="context")
    check_limit("metadata_bytes", len(canonical.encode(context)), field="context")
    return context


def read_overrides(
    options: TurnOptions, output: Output | None, models: KnownModels, program: Program | None
) -> dict[str, Any]:
    """Return what differs from the agent, as plain data."""
    if output is None and _OVERRIDES.isdisjoint(options):
        return EMPTY_DICT
    given: dict[str, Any] = {name: one for name, one in options.items() if one is not None}
    record: dict[str, Any] = {}
    if "model" in given:
        record["model"] = _model_name(given["model"], models, program)
    if "prompt" in given:
        record |= _prompt(given["prompt"])
    if "limits" in given:
        check_instance(given["limits"], Limits, field="limits")
        record["limits"] = limits_record(given["limits"])
    if "generation" in given:
        check_instance(given["generation"], Generation, field="generation")
        plain = msgspec.to_builtins(given["generation"])
        plain.pop("type", None)
        record["generation"] = plain
    if "finish" in given:
        names = None
        if program is not None and not program.providers:
            names = {one.spec.name for one in program.toolbox}
        record["finish"] = read_finish(given["finish"], names, field="finish")
    if output is not None:
        record["output"] = output.schema
    return record


def _prompt(given: object) -> dict[str, Any]:
    """Return what a caller says of the prompt: other instructions, or pieces for its slots."""
    if isinstance(given, str):
        check_text(given, field="prompt")
        check_limit("input_text_bytes", len(given.encode()), field="prompt")
        return {"prompt": given}
    pieces = read_pieces(given, field="prompt", layers=("session", "turn"))
    return {"pieces": plain_pieces(pieces)} if pieces else {}


def _model_name(given: object, models: KnownModels, program: Program | None) -> str:
    if isinstance(given, str):
        if given and (program is None or models.find(given) is not None):
            return given
        raise InvalidInput(
            "model: no model here has this name; register one with Runtime(models=...)",
            field="model",
        )
    if not callable(getattr(given, "complete", None)):
        raise InvalidInput.at("model", type(given).__name__, "a Model or the name of one")
    model: Model = given  # type: ignore[assignment]  # it can complete
    models.add(model)
    return model.name


async def read_input(given: Input, store: Store, *, now_ms: int) -> tuple[Part, ...]:
    """Return the input as parts; new files among them are stored.

    Raises:
        InvalidInput: it is empty, or holds something that is not a part.
        LimitExceeded: it is too large.
    """
    if isinstance(given, str):
        return (_text(given, "input[0]"),)
    listed = [given] if isinstance(given, (Text, Attachment, Upload)) else given
    if not isinstance(listed, (list, tuple)):
        raise InvalidInput.at("input", type(given).__name__, "text or a list of parts")
    if not listed:
        raise InvalidInput.at("input", "no parts", "at least one")
    check_limit("parts_per_message", len(listed), field="input")
    n_files = sum(isinstance(one, (Attachment, Upload)) for one in listed)
    check_limit("attachments_per_turn", n_files, field="input")
    checked = [_checked(one, f"input[{at}]") for at, one in enumerate(listed)]
    for at, one in enumerate(checked):
        if isinstance(one, Attachment):
            await _check_stored(one, store, f"input[{at}]")
    return tuple([await _stored(one, store, now_ms) for one in checked])


def _text(words: str, field: str) -> Text:
    # Length first: a text that is far too long is not copied.
    check_limit("input_text_bytes", len(words), field=field)
    check_text(words, field=field)
    if not words.isascii():
        check_limit("input_text_bytes", len(words.encode()), field=field)
    if not words or words.isspace():
        raise InvalidInput.at(field, "blank text", "words")
    return Text(text=words)


def _checked(one: object, field: str) -> Text | Attachment | Upload:
    if isinstance(one, Attachment):
        check_media_type(one.media_type, field=f"{field}.media_type")
        check_file_name(one.name, field=f"{field}.name")
    if isinstance(one, (Attachment, Upload)):
        return one
    if isinstance(one, str):
        return _text(one, field)
    if isinstance(one, Text):
        _text(one.text, field)
        return one
    raise InvalidInput.at(
        field, type(one).__name__, "text, Text or Attachment.from_bytes/from_path"
    )


async def _check_stored(one: Attachment, store: Store, field: str) -> None:
    try:
        await store.get_blob(one.ref)
    except CallerError:
        found = "an attachment whose bytes are not stored"
        raise InvalidInput.at(field, found, "Attachment.from_bytes") from None


async def _stored(one: Text | Attachment | Upload, store: Store, now_ms: int) -> Part:
    if not isinstance(one, Upload):
        return one
    ref = await store.put_blob(one.data, now_ms=now_ms)
    return Attachment(ref=ref, media_type=one.media_type, name=one.name, n_bytes=len(one.data))
