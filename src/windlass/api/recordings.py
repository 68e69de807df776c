"""Making recordings of calls to models, and playing them again: where adapters and patterns of secrets meet."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from contextvars import Token
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec
from msgspec.structs import replace

from windlass.errors import ConfigError, InvalidInput, ProviderError
from windlass.guards.secret import REGISTERED, Redactor, Secret
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Text, canonical
from windlass.models.capabilities import Capabilities
from windlass.models.credentials import KEY_SOURCES
from windlass.models.names import PROVIDERS, model_named
from windlass.models.recording import Failure, Recording, read_recording
from windlass.models.recording.scrubbing import Scrubber
from windlass.models.sdk_model import SdkModel
from windlass.ports.model import READ_BLOB, Model, ModelEvent
from windlass.release import RELEASE

if TYPE_CHECKING:
    import os

    from windlass.models.recording.wire import Kept

T = TypeVar("T")

STAND_IN_URL: Final = "http://recorded.invalid"
_NO_KEY: Final = "recorded-no-key"
_PERSONAL: Final = frozenset({"card", "email", "iban", "ipv4", "ipv6", "phone"})
_PLAYED: Final = tuple(name for name in PROVIDERS if name != "local")
# What a cloud's model cannot be made without.
_NOWHERE: Final = {
    "vertex-anthropic": {"project": "recorded"},
    "bedrock-anthropic": {"region": "us-east-1"},
}
# What stands for the bytes of an attachment, which no recording has.
_NO_BYTES: Final = b"(an attachment)"


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What this release makes of a recording.

    Attributes:
        recording: The recording that was played.
        reply: What the adapter read now; None if that was an error.
        error: The error that the adapter raised now; None if it read a reply.
        expected: The recorded reply or error, as plain JSON under `reply` or `error`.
        found: What was read now, in the same form.
        request_diff: How the request that is sent now differs from the recorded one; empty if it does not.
    """

    recording: Recording
    reply: ModelReply | None
    error: ProviderError | None
    expected: dict[str, Any]
    found: dict[str, Any]
    request_diff: str = ""

    @property
    def is_same(self) -> bool:
        """Whether it is read exactly as it was when it was recorded."""
        return self.expected == self.found

    @property
    def diff(self) -> str:
        """How what is read now differs from what was recorded, line by line; empty if it does not."""
        return _diff(self.expected, self.found)


async def replay_recording(path: str | os.PathLike[str] | Recording) -> Replayed:
    """Play a recording to this release's adapter, without a network, and compare what it reads.

    Args:
        path: The file, or a recording that was read from one.

    Raises:
        InvalidInput, FormatUnsupported, LimitExceeded: as `read_recording`.
        ConfigError: the provider is not known here, or its SDK is not installed.
    """
    recording = path if isinstance(path, Recording) else read_recording(path)
    asked = canonical.decode(canonical.encode(recording.asked), ModelRequest)
    outcome = await _played(recording, asked)
    return Replayed(
        recording=recording,
        reply=outcome.reply,
        error=outcome.error,
        expected=recording.outcome,
        found=outcome.told,
        request_diff=_request_diff(recording, outcome.bodies),
    )


async def record_exchange(
    model: Model,
    request: ModelRequest | str,
    *,
    personal: bool = False,
    keep_signatures: bool = False,
    secrets: Iterable[Secret] = (),
) -> Recording:
    """Ask a model, and return a scrubbed recording of what went over the wire, also if the call fails.

    Args:
        model: A model behind a provider's API; its address, key and settings are used as they are.
        request: What it is asked, or the words of one message; attachments are read as in a turn.
        personal: Whether addresses, phone, card and account numbers are taken out, too.
        keep_signatures: Whether signed and encrypted blobs of the provider stay as they are.
        secrets: Secrets that are not registered and must not be in it.

    Raises:
        ConfigError: the model does not speak over a network.
        InvalidInput: the request cannot be said to this model, so that nothing was sent.
        LimitExceeded: the answer is larger than a recording may be.
    """
    if not isinstance(model, SdkModel):
        raise ConfigError.at("model", model.name, "a model that a provider's API answers for")
    if isinstance(request, str):
        said = ModelMessage(role="user", parts=(Text(text=request),))
        request = ModelRequest(model=model.name, messages=(said,))
    from windlass.models.recording.wire import exchange_of  # noqa: PLC0415 - brings an HTTP client

    scrubbed = (("personal",) if personal else ()) + (() if keep_signatures else ("signatures",))
    blank = _blank(model, scrubbed)
    _model_of(blank)  # what cannot be played is refused here, before anything is paid for
    live, kept = await _asked(model, request)
    known = dict.fromkeys((*REGISTERED.secrets, *secrets))
    endpoint = model.route.endpoint
    scrubber = Scrubber(
        Redactor(known),
        _finder(personal=personal),
        swaps=_swaps(endpoint, blank.base_url),
        keep_signatures=keep_signatures,
    )
    draft = replace(
        blank,
        asked=scrubber.json(request),
        exchanges=tuple(exchange_of(each, scrubber, endpoint) for each in kept),
    )
    read = await _played(draft, canonical.decode(canonical.encode(draft.asked), ModelRequest))
    return replace(
        draft,
        reply=read.told.get("reply"),
        error=None if read.error is None else _failure(read.error),
        is_faithful=_shape(live.told) == _shape(read.told),
    )


def _blank(model: SdkModel[Any], scrubbed: tuple[str, ...]) -> Recording:
    """Return a recording of a model that was not asked yet."""
    dialect = getattr(model, "dialect", None)
    return Recording(
        format=Recording.FORMAT,
        release=RELEASE,
        provider=model.provider,
        model=model.route.model,
        base_url=_told_url(model),
        dialect=None if dialect is None or _is_row(dialect) else _stated(dialect),
        capabilities=_stated(model.capabilities),
        scrubbed=scrubbed,
        asked={},
        exchanges=(),
        reply={},
    )


# ---------------------------------------------------------------------- asking and playing


class _Outcome(msgspec.Struct, frozen=True, kw_only=True):
    reply: ModelReply | None = None
    error: ProviderError | None = None
    bodies: list[bytes] = []

    @property
    def told(self) -> dict[str, Any]:
        if self.error is not None:
            return {"error": msgspec.to_builtins(_failure(self.error))}
        return {"reply": canonical.parse(canonical.encode(self.reply).decode())}


def _show_nobody(_event: ModelEvent) -> None:
    """Previews are not recorded: they follow from what is."""


async def _complete(model: SdkModel[Any], request: ModelRequest) -> _Outcome:
    try:
        return _Outcome(reply=await model.complete(request, _show_nobody))
    except ProviderError as error:
        return _Outcome(error=error)


async def _asked(model: SdkModel[Any], request: ModelRequest) -> tuple[_Outcome, list[Kept]]:
    from windlass.models.recording.wire import keeping  # noqa: PLC0415 - as above

    client, wire = keeping(model.http_client)
    over = model.over(client)
    try:
        outcome = await _complete(over, request)
    finally:
        await over.aclose()
        await client.aclose()
        if model.http_client is None:
            await wire.client.aclose()
    if outcome.error is not None and not wire.kept:
        raise outcome.error
    return outcome, wire.kept


async def _played(recording: Recording, asked: ModelRequest) -> _Outcome:
    from windlass.models.recording.wire import kept_of, playing  # noqa: PLC0415 - as above

    client, wire = playing(map(kept_of, recording.exchanges))
    model = _model_of(recording).over(client)
    reading: Token[Any] = READ_BLOB.set(_no_bytes)
    try:
        outcome = await _complete(model, asked)
    finally:
        READ_BLOB.reset(reading)
        await model.aclose()
        await client.aclose()
    return replace(outcome, bodies=wire.bodies)


async def _no_bytes(_ref: str) -> bytes:
    return _NO_BYTES


def _model_of(recording: Recording) -> SdkModel[Any]:
    """Return the model of a recording, with an address and a key that lead nowhere."""
    settings: dict[str, Any] = {
        "base_url": recording.base_url,
        "api_key": Secret(_NO_KEY, name="no key"),
        "capabilities": _read_as(recording.capabilities, Capabilities, field="capabilities"),
    }
    if recording.dialect is not None:
        from windlass.models.openai_chat import OpenAIChatModel  # noqa: PLC0415 - few have their own
        from windlass.models.openai_chat.dialects import Dialect  # noqa: PLC0415 - the same

        own = _read_as(recording.dialect, Dialect, field="dialect")
        return OpenAIChatModel(recording.model, dialect=own, **settings)
    if recording.provider not in _PLAYED:
        found = repr(recording.provider[:40])
        raise ConfigError.at("provider", found, f"one of {', '.join(_PLAYED)}")
    own_settings = _NOWHERE.get(recording.provider, {})
    model = cast("SdkModel[Any]", model_named(recording.name, **settings, **own_settings))
    # As it was: the project that is made up here belongs to no blob of the recording.
    model.route = replace(model.route, endpoint=recording.base_url)
    return model


def _read_as(value: object, kind: type[T], *, field: str) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{field}: not a recording: {error}", field=field) from None


# ---------------------------------------------------------------------- what is told


def _told_url(model: SdkModel[Any]) -> str:
    """Return the provider's own address, and for any other one that leads nowhere."""
    home = KEY_SOURCES.get(model.provider)
    is_home = home is not None and model.route.endpoint == home.base_url
    return model.route.endpoint if is_home else STAND_IN_URL


def _swaps(endpoint: str, told: str) -> Mapping[str, str]:
    """Return what takes the place of an address, of its host, and of the project that it names."""
    if endpoint == told:
        return {}
    host, _, path = endpoint.partition("://")[2].partition("/")
    project = path.partition("projects/")[2].partition("/")[0]
    said = ("projects/", "project ") if project else ()
    named = {f"{word}{project}": f"{word}recorded" for word in said}
    return {endpoint: told, host: STAND_IN_URL.partition("://")[2], **named}


def _finder(*, personal: bool) -> Any:  # noqa: ANN401 - a `Finder`
    from windlass.plugins.secret_patterns import KINDS, Patterns  # noqa: PLC0415 - few record

    kinds = [kind for kind in KINDS if personal or kind not in _PERSONAL]
    return Patterns(kinds, {})


def _is_row(dialect: Any) -> bool:  # noqa: ANN401 - a `Dialect`
    from windlass.models.openai_chat.dialects import DIALECTS  # noqa: PLC0415 - as above

    return dialect in DIALECTS.values() and dialect.provider in KEY_SOURCES


def _stated(value: Any) -> dict[str, Any]:  # noqa: ANN401 - a struct
    """Return the fields of a struct that differ from its defaults, as plain JSON in a fixed order."""
    told: dict[str, Any] = _plain(value)
    usual = {
        field.name: _plain(
            field.default_factory() if field.default is msgspec.NODEFAULT else field.default
        )
        for field in msgspec.structs.fields(value)
        if not field.required
    }
    return {name: one for name, one in told.items() if name not in usual or usual[name] != one}


def _plain(value: object) -> Any:  # noqa: ANN401 - JSON
    return msgspec.json.decode(msgspec.json.encode(value, order="deterministic"))


def _failure(error: ProviderError) -> Failure:
    return Failure(
        class_=type(error).__name__,
        message=str(error),
        retry_after_s=getattr(error, "retry_after_s", None),
    )


def _shape(told: Mapping[str, Any]) -> object:
    """Return what scrubbing must not change about an outcome."""
    reply = told.get("reply")
    if reply is None:
        return told["error"]["class"]
    parts = [part.get("type") for part in reply.get("parts", ())]
    return reply.get("terminal"), parts, reply.get("usage")


def _diff(old: object, new: object) -> str:
    if old == new:
        return ""
    told = difflib.unified_diff(
        _lines(old), _lines(new), "recorded", "this release", lineterm="", n=2
    )
    return "\n".join(told)


def _lines(value: object) -> list[str]:
    encoded = msgspec.json.encode(value, order="deterministic")
    return msgspec.json.format(encoded, indent=2).decode().splitlines()


def _request_diff(recording: Recording, bodies: list[bytes]) -> str:
    if b'"attachment"' in canonical.encode(recording.asked):
        return ""  # its bytes are not recorded, so it cannot be sent again
    old = [each.request.body for each in recording.exchanges]
    return _diff(old, [msgspec.json.decode(body) if body else None for body in bodies])
