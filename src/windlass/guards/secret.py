"""Secrets: values that must not reach logs, journals, traces or errors.

`Secret` does not show itself and no encoder of windlass accepts it. `Redactor` removes known
secrets from text of foreign origin, such as an error body in which a provider echoes the key.
`REGISTERED` knows those of this process: turns are cleaned of them before anything is used or recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from windlass.errors import ConfigError, InvalidInput

# A shorter value would be found inside ordinary words, and redaction would eat the text.
_MIN_CHARS = 6
_HEX = re.compile(r"%[0-9A-F]{2}")


class Secret:
    """A value that is only had by asking for it: `secret.reveal()`."""

    __slots__ = ("_name", "_value")

    def __init__(self, value: str, *, name: str = "secret") -> None:
        if not isinstance(value, str) or len(value) < _MIN_CHARS:
            raise ConfigError(
                f"{name}: a secret is text of at least {_MIN_CHARS} characters",
                field=name,
                wanted=f"at least {_MIN_CHARS} characters",
            )
        self._value = value
        self._name = name

    @property
    def name(self) -> str:
        """What to call it in messages, such as the environment variable it came from."""
        return self._name

    def reveal(self) -> str:
        """Return the value itself, for the one call that needs it."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self._name})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        import hmac  # noqa: PLC0415 - see _forms

        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> str:
        raise TypeError(f"{self!r} cannot be copied into bytes")


class Redactor:
    """Replaces every known secret in a text, also where it is base64, URL or JSON encoded.

    Attributes:
        secrets: All that it knows.
        longest: How many characters the longest of them has, also where it is encoded; 0 if it knows none.
    """

    __slots__ = ("_bytes", "_first", "_forms", "longest", "secrets")

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self.know(tuple(secrets))

    def know(self, secrets: tuple[Secret, ...]) -> None:
        """Replace these secrets from now on, and no others."""
        forms = {form: secret.name for secret in secrets for form in _forms(secret.reveal())}
        marks = {form: _mark(name, forms) for form, name in forms.items()}
        # Longest first: one secret may be the beginning of another.
        self._forms = sorted(marks.items(), key=lambda item: -len(item[0]))
        self._bytes = tuple(form.encode() for form, _ in self._forms)
        self._first = frozenset(form[0] for form, _ in self._forms)
        self.longest = max((len(form) for form, _ in self._forms), default=0)
        self.secrets = secrets

    def is_in(self, data: bytes) -> bool:
        """Whether any known secret can be read in these bytes."""
        return any(form in data for form in self._bytes)

    def clean(self, text: str) -> str:
        """Return `text` without any known secret."""
        for form, mark in self._forms:
            if form in text:
                text = text.replace(form, mark)
        return text

    def places(self, text: str) -> list[tuple[int, int, str]]:
        """Return where known secrets stand in a text: from, to, and the mark for it. Places may overlap."""
        found = []
        for form, mark in self._forms:
            at = text.find(form)
            while at >= 0:
                found.append((at, at + len(form), mark))
                at = text.find(form, at + len(form))
        return found

    def clean_length(self, text: str) -> int:
        """Return how much of a text that goes on is surely clean: its end may begin a secret."""
        for at in range(max(0, len(text) - self.longest + 1), len(text)):
            if text[at] in self._first:
                end = text[at:]
                if any(form.startswith(end) for form, _ in self._forms):
                    return at
        return len(text)


REGISTERED = Redactor(())
"""Knows every secret of this process. While `REGISTERED.secrets` is empty, callers skip the cleaning."""


def register_secret(secret: Secret) -> Secret:
    """Keep a secret out of every turn of this process and out of every store; return it.

    Models register their keys. Register others before the first turn: what is stored already stays as it is.
    """
    if secret not in REGISTERED.secrets:
        REGISTERED.know((*REGISTERED.secrets, secret))
    return secret


def check_no_secret(data: bytes, *, field: str, wanted: str) -> None:
    """Refuse what cannot be redacted and stay what it is: a name, or bytes that have a digest.

    Raises:
        InvalidInput: without showing it.
    """
    if REGISTERED.is_in(data):
        raise InvalidInput.at(field, "a registered secret", wanted)


def _mark(name: str, forms: Iterable[str]) -> str:
    """Return what stands for a secret; a name with a secret in it would be replaced again, and never be clean."""
    mark = f"[{name}]"
    return "[...]" if any(form in mark for form in forms) else mark


def _forms(value: str) -> set[str]:
    # Only who redacts pays for these imports; everybody imports this module.
    import base64  # noqa: PLC0415
    import urllib.parse  # noqa: PLC0415

    raw = value.encode()
    forms = {value, urllib.parse.quote_plus(value), *_json_forms(value)}
    for safe in ("", "/"):
        quoted = urllib.parse.quote(value, safe=safe)
        forms |= {quoted, _HEX.sub(lambda code: code[0].lower(), quoted)}
    # Inside a longer base64 text the value starts at any of three offsets; only the characters
    # that depend on nothing but the value are looked for.
    for offset in range(3):
        coded = base64.b64encode(b"\x00" * offset + raw).decode()
        start = (offset * 8 + 5) // 6
        whole = (offset + len(raw)) * 8 // 6
        for text in (coded, coded.replace("+", "-").replace("/", "_")):
            forms.add(text[start:whole])
    return forms


def _json_forms(value: str) -> set[str]:
    """Return how the value stands in JSON, and in JSON inside JSON, as those write it who spare or use ASCII."""
    import json  # noqa: PLC0415

    forms = set()
    for ascii_only in (False, True):
        written = value
        for _ in range(2):
            written = json.dumps(written, ensure_ascii=ascii_only)[1:-1]  # noqa: TID251 - other people's JSON
            forms.add(written)
    return forms
