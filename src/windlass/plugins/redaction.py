"""Redaction: personal data and secrets reach neither the model nor the history.

Law 1. A hit is replaced wherever the turn would use it: in the value of a result, its words, what is shown of it,
    and the whole text that the turn kept of it. Keys of dicts and arguments of calls stay as they are.
Law 2. The same words are redacted in the same way, at any time and in any process; a replacement is never redacted.
Law 3. Text that cannot be redacted is not shown: a whole text that is too long for it is left out.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from windlass.errors import ConfigError
from windlass.kernel.messages import (
    Attachment,
    Part,
    Reasoning,
    ResultPart,
    ServerToolCall,
    Text,
)
from windlass.kernel.model_call import ModelReply, ReplyPart
from windlass.kernel.tool_call import CompletedToolCall, Control, HandOff, ToolOutcome, as_text
from windlass.kernel.value import Json
from windlass.plugins import kept_output, options
from windlass.plugins.secret_patterns import DEFAULTS, KINDS, PERSONAL, Hit, Patterns
from windlass.ports import PluginTurn
from windlass.ports.plugin import Chunk, Plugin

__all__ = ["DEFAULTS", "KINDS", "Redaction"]

T = TypeVar("T")
P = TypeVar("P", bound=Part | ResultPart)

# Searching more would block every other turn of the process.
_MAX_WHOLE_BYTES: Final = 4 * 1024 * 1024
# This many are searched in a few milliseconds.
_MANY_CHARS: Final = 16 * 1024
_TAG_CHARS: Final = 4
# Replacing one secret may reveal another beside it.
_MAX_LOOKS: Final = 3
_NOT_KEPT: Final = "(The whole text is not kept: it is too long to be redacted.)"
_CUSTOM_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")


class Redaction(Plugin):
    """Replaces addresses, account numbers, keys and passwords in what tools return, each by its kind.

    Args:
        patterns: The kinds to look for; without this, all that are built in and on by default.
        custom: Regular expressions of your own, by kind.
        replacement: What stands in their place; `{kind}` is the kind.
        distinct: Whether two addresses are told apart by a short tag, the same all through the session.
        input: Whether what people say is looked at, too.
        output: Whether what the model says is looked at, too; its previews are then not shown.
    """

    name = "redaction"
    version = "1"

    def __init__(
        self,
        *,
        patterns: Iterable[str] = DEFAULTS,
        custom: Mapping[str, str | re.Pattern[str]] | None = None,
        replacement: str = "[{kind}]",
        distinct: bool = False,
        input: bool = False,
        output: bool = False,
    ) -> None:
        own = _custom({} if custom is None else custom)
        self._patterns = Patterns(_kinds(patterns), own)
        if not isinstance(replacement, str) or not replacement:
            wanted = "text, such as [{kind}]"
            raise options.refused(replacement, wanted, field="Redaction.replacement")
        self._replacement = replacement
        kinds = "|".join(map(re.escape, [*KINDS, *own]))
        around = map(re.escape, replacement.split("{kind}"))
        kind = f"(?:{kinds})(?:-[0-9a-f]{{{_TAG_CHARS}}})?"
        self._put = re.compile(kind.join(around))
        self._is_distinct = _flag(distinct, "distinct")
        self._is_for_input = _flag(input, "input")
        self._is_for_output = _flag(output, "output")

    # ------------------------------------------------------------------ hooks

    async def on_input(self, turn: PluginTurn, parts: tuple[Part, ...]) -> Sequence[Part] | None:
        """Return what a person said, redacted."""
        if not self._is_for_input:
            return None
        made = self._parts(parts, turn)
        return None if made == parts else list(made)

    def on_stream(self, turn: PluginTurn, chunk: Chunk) -> Chunk | None:  # noqa: ARG002 - the port's
        """Show no preview: half of a secret looks like nothing, and the other half comes later."""
        if not self._is_for_output:
            return None
        return msgspec.structs.replace(chunk, text="")

    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> ModelReply | None:
        """Return what the model said, redacted; the arguments of its calls stay."""
        if not self._is_for_output:
            return None
        parts = tuple(self._said(part, turn) for part in reply.parts)
        if parts == reply.parts:
            return None
        return msgspec.structs.replace(reply, text="", parts=parts)

    async def after_tool(self, turn: PluginTurn, call: CompletedToolCall) -> ToolOutcome | None:
        """Return the result, redacted."""
        outcome = kept = call.outcome
        has_text = isinstance(outcome.value, (str, list, dict))
        if not (has_text or outcome.content or outcome.shown is not None or outcome.control):
            return None
        for whole in _wholes(outcome.content, outcome.shown):
            kept = await self._without_whole(turn, whole, kept)
        made = await _aside(_n_chars(kept), lambda: self._redacted(kept, turn))
        return None if made == outcome else made

    # ------------------------------------------------------------------ of what

    def _redacted(self, outcome: ToolOutcome, turn: PluginTurn) -> ToolOutcome:
        shown = outcome.shown
        return msgspec.structs.replace(
            outcome,
            value=self._json(outcome.value, turn),
            content=self._parts(outcome.content, turn),
            shown=None if shown is None else self._parts(shown, turn),
            control=self._control(outcome.control, turn),
        )

    async def _without_whole(
        self, turn: PluginTurn, whole: Attachment, outcome: ToolOutcome
    ) -> ToolOutcome:
        """Return the result with a redacted whole text in place of the one that the turn kept."""
        data = await turn.read(whole.ref)
        is_too_long = len(data) > _MAX_WHOLE_BYTES
        # No turn shows more than the first MiB.
        text = data[:_MAX_WHOLE_BYTES].decode(errors="ignore" if is_too_long else "replace")
        clean = await _aside(len(text), lambda: self._clean(text, turn))
        if clean == text and not is_too_long:
            return outcome
        kept: ResultPart = Text(text=_NOT_KEPT)
        if not is_too_long:
            name = kept_output.FULL_OUTPUT
            kept = await turn.attach(clean.encode(), media_type="text/plain", name=name)
        n_more = max(0, len(data) - _MAX_WHOLE_BYTES)
        put = partial(_with_whole, text=clean, n_more=n_more, kept=kept)
        shown = None if outcome.shown is None else put(outcome.shown)
        return msgspec.structs.replace(outcome, content=put(outcome.content), shown=shown)

    def _parts(self, parts: tuple[P, ...], turn: PluginTurn) -> tuple[P | Text, ...]:
        return tuple(self._text(part, turn) if isinstance(part, Text) else part for part in parts)

    def _control(self, control: Control | None, turn: PluginTurn) -> Control | None:
        if isinstance(control, HandOff):
            return HandOff(target=control.target, task=self._json(control.task, turn))
        if control is None or not self._is_for_output:
            return control
        return type(control)(value=self._json(control.value, turn))

    def _said(self, part: ReplyPart, turn: PluginTurn) -> ReplyPart:
        if isinstance(part, Text):
            return self._text(part, turn)
        if isinstance(part, ServerToolCall):
            # What was asked and found cannot be changed in the provider's blob, so it goes with the words.
            text = self._clean(part.text, turn)
            return part if text == part.text else ServerToolCall(name=part.name, text=text)
        if isinstance(part, Reasoning):
            text = self._clean(part.text, turn)
            # Signed for other words: no provider would take these thoughts back.
            return part if text == part.text else Reasoning(text=text)
        return part

    def _text(self, part: Text, turn: PluginTurn) -> Text:
        """Return words, and what is told of their citations. Redacted, they are not the provider's any more."""
        text = self._clean(part.text, turn)
        clean = partial(self._clean, turn=turn)
        citations = tuple([each.changed(clean) for each in part.citations])
        if text == part.text and citations == part.citations:
            return part
        return Text(text=text, phase=part.phase, citations=citations)

    def _json(self, value: Json, turn: PluginTurn) -> Json:
        if isinstance(value, str):
            return self._clean(value, turn)
        if isinstance(value, list):
            return [self._json(item, turn) for item in value]
        if isinstance(value, dict):
            return {key: self._under(key, item, turn) for key, item in value.items()}
        return value

    def _under(self, key: str, value: Json, turn: PluginTurn) -> Json:
        kind = self._patterns.kind_of_key(key)
        is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if kind is not None and is_plain and value != "":
            text = str(value)
            is_clean = self._put.fullmatch(text) is not None
            return value if is_clean else self._name(kind, text, turn)
        return self._json(value, turn)

    # ------------------------------------------------------------------ words

    def _clean(self, text: str, turn: PluginTurn) -> str:
        for _ in range(_MAX_LOOKS):
            hits = [hit for hit in self._patterns.hits(text) if not self._is_clean(hit, text)]
            if not hits:
                break
            pieces, at = [], 0
            for hit in hits:
                name = self._name(hit.kind, text[hit.start : hit.end], turn)
                pieces += [text[at : hit.start], name]
                at = hit.end
            text = "".join([*pieces, text[at:]])
        return text

    def _is_clean(self, hit: Hit, text: str) -> bool:
        """Whether what stands there was put there by redaction."""
        put = self._put.match(text, hit.start)
        return put is not None and put.end() >= hit.end

    def _name(self, kind: str, secret: str, turn: PluginTurn) -> str:
        if self._is_distinct and kind in PERSONAL:
            same = "".join(char for char in secret.casefold() if char not in " ()-/")
            told = sha256(f"{turn.session_id}\n{kind}\n{same}".encode()).hexdigest()
            kind = f"{kind}-{told[:_TAG_CHARS]}"
        return self._replacement.replace("{kind}", kind)


async def _aside(n_chars: int, look: Callable[[], T]) -> T:
    """Look through words; if they are many, in a thread, so that other turns go on meanwhile."""
    return look() if n_chars < _MANY_CHARS else await asyncio.to_thread(look)


def _n_chars(outcome: ToolOutcome) -> int:
    parts = (*outcome.content, *(outcome.shown or ()))
    said = sum(len(part.text) for part in parts if isinstance(part, Text))
    return len(as_text(outcome.value)) + said


def _wholes(*views: tuple[ResultPart, ...] | None) -> list[Attachment]:
    found = {
        part.ref: part
        for view in views
        for part in view or ()
        if isinstance(part, Attachment) and kept_output.is_whole(part)
    }
    return list(found.values())


def _with_whole(
    parts: tuple[ResultPart, ...], *, text: str, n_more: int, kept: ResultPart
) -> tuple[ResultPart, ...]:
    """Return a view of a redacted text, cut where the turn had cut it: half a secret is one, too."""
    cut = kept_output.cut_by_turn(parts)
    if cut is None:
        return tuple(kept if kept_output.is_whole(part) else part for part in parts)
    shown = Text(text=kept_output.cut_again(text, cut.n_shown, n_more))
    return (shown, *cut.attachments, kept, *cut.after)


def _kinds(given: object) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        wanted = "some of: " + ", ".join(KINDS)
        raise options.refused(given, wanted, field="Redaction.patterns")
    return [options.choice(kind, KINDS, field="Redaction.patterns") for kind in given]


def _custom(given: object) -> dict[str, re.Pattern[str]]:
    if not isinstance(given, Mapping):
        wanted = "a dict of names and regular expressions"
        raise options.refused(given, wanted, field="Redaction.custom")
    made = {}
    for name, regex in given.items():
        if not isinstance(name, str) or not _CUSTOM_NAME.match(name) or name in KINDS:
            found = repr(name)[:40] if isinstance(name, str) else type(name).__name__
            wanted = "a new name of a-z 0-9 -, up to 32, a letter first"
            raise ConfigError.at("Redaction.custom", found, wanted)
        try:
            made[name] = re.compile(regex)
            made[name].search("")
        except (re.error, TypeError, ValueError):
            found = "another kind of text" if isinstance(regex, str) else type(regex).__name__
            wanted = "a regular expression for text"
            raise ConfigError.at(f"Redaction.custom[{name!r}]", found, wanted) from None
    return made


def _flag(given: object, name: str) -> bool:
    if isinstance(given, bool):
        return given
    raise options.refused(given, "True or False", field=f"Redaction.{name}")
