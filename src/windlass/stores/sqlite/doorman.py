"""The doorman: everything that goes into the file passes here, and no registered secret does."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from windlass.errors import InvalidInput
from windlass.guards.secret import Redactor
from windlass.journal import bodies, encode_page, shortened
from windlass.journal.redaction import redact
from windlass.kernel import canonical
from windlass.kernel.value import Value
from windlass.ports.unit import NewTurn, TurnRequest, Unit
from windlass.stores.sqlite.packed import pack
from windlass.stores.sqlite.pages import SplitPage


class RequestPage(Value, kw_only=True):
    """What was asked of a turn, as it is stored."""

    FORMAT: ClassVar[int] = 1

    format: int
    request: TurnRequest


class Doorman(NamedTuple):
    """Makes bytes of values. Whoever forgot to take a secret out before has forgotten nothing here."""

    redactor: Redactor | None

    def page(self, value: object) -> SplitPage:
        """Return a page as it is stored, with its long texts apart."""
        return bodies.split(self._encode(value))

    def journal_page(self, unit: Unit) -> SplitPage:
        """Return the page of a unit's entries as it is stored."""
        data = encode_page(unit.entries, unit.generation)
        redactor, long_texts = self.redactor, ()
        if redactor is not None:
            data = redact(data, redactor)
        if len(data) >= bodies.MIN_BODY_BYTES:
            data, long_texts = bodies.split(data)
        return shortened(data, unit.session_id, unit.turn_id), long_texts

    def request_page(self, turn: NewTurn) -> SplitPage:
        """Return what was asked of a turn as it is stored."""
        return self.page(RequestPage(format=RequestPage.FORMAT, request=turn.request))

    def pack(self, value: object) -> bytes:
        """Return a small payload as it is stored."""
        return pack(self._encode(value))

    def words(self, text: str) -> str:
        """Return words that are kept in a column of their own."""
        return text if self.redactor is None else self.redactor.clean(text)

    def check_names(self, *names: str) -> None:
        """Refuse a name that holds a secret: redacted it would be another name, and errors show names.

        Raises:
            InvalidInput: without showing it.
        """
        if any(self._holds_secret(str(name).encode()) for name in names):
            raise InvalidInput("name: found a registered secret, wanted an id", field="name")

    def check_blob(self, data: bytes) -> None:
        """Refuse bytes that hold a secret: redacted they would have another digest."""
        if self._holds_secret(data):
            raise InvalidInput("data: the bytes hold a registered secret", field="data")

    def _encode(self, value: object) -> bytes:
        data = canonical.encode(value)
        return data if self.redactor is None else redact(data, self.redactor)

    def _holds_secret(self, data: bytes) -> bool:
        return self.redactor is not None and self.redactor.is_in(data)
