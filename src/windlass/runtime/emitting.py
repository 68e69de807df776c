"""Events of triggers as turns: the sessions and ids of occurrences and deliveries.

    source      one session per source and month; an occurrence is a turn there, whose id derives from the event's key
    delivery    a session per subscriber and occurrence; with an order key, per subscriber, order key and month

Law 1. Each month is a session, so that it can be deleted as a whole. The transaction that accepts an event looks for its
    key in each month that `dedupe` reaches back to, and in the next month, because clocks may differ.
Law 2. Deliveries of one order key are in one session at a time: while an earlier month's session has unfinished ones, new
    deliveries go there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from windlass.errors import InvalidInput, SessionDeleted
from windlass.guards import check_text, is_id
from windlass.guards.limits import check_limit
from windlass.journal import derived_session_id
from windlass.journal.redaction import cleaned
from windlass.kernel import Json, canonical
from windlass.kernel.value import freeze
from windlass.ports import AcceptTurn, NewTurn, SessionSummary, Store, TurnRequest
from windlass.ports.trigger import DEDUPE_MS, EventSource
from windlass.tools.results import NotPlain, as_json

_ID_HEX = 40
_MAX_NAME = 64
_SECOND_MS = 1_000
_MONTHS = 12


def source_agent(source: str) -> str:
    """Return the name of the program that delivers the events of a source."""
    return f"trigger:{source}"


def name_of_source(label: str | None) -> str | None:
    """Return the name of the source whose occurrences are in sessions with this label."""
    prefix = source_agent("")
    return label.removeprefix(prefix) if label is not None and label.startswith(prefix) else None


def subscriber_agent(subscriber: str) -> str:
    """Return the name of the program that handles the deliveries to a subscriber."""
    return f"on:{subscriber}"


def is_name(name: object) -> bool:
    """Whether a source, a subscriber or a schedule may have this name: a short id."""
    return is_id(name) and len(str(name)) <= _MAX_NAME


def plain_event(event: object, field: str = "event") -> Json:
    """Return an event as JSON.

    Raises:
        InvalidInput: it has no JSON form.
        LimitExceeded: it is too large.
    """
    try:
        found = freeze(as_json(event), field=field)
    except NotPlain as error:
        raise InvalidInput.at(field, str(error), "something with a JSON form") from None
    check_limit("request_body_bytes", len(canonical.encode(found)), field=field)
    return found


class Emission(NamedTuple):
    """An event on its way into the store: the errand, and how long its key is known."""

    errand: AcceptTurn
    dedupe_ms: int

    def known_until(self, session_id: str | None = None) -> datetime:
        """Return until when the key is known if the event is in this session; by default the errand's session."""
        at = (self.errand.session_id, *self.errand.known_in).index(
            session_id or self.errand.session_id
        )
        months = _months(self.errand.turn.now_ms, self.dedupe_ms)
        return datetime.fromtimestamp((months[at].end_ms + self.dedupe_ms) / _SECOND_MS, tz=UTC)


class Emitter(NamedTuple):
    """Makes the errands of events."""

    store: Store
    sources: Mapping[str, EventSource]

    def emission(
        self,
        source: EventSource | str,
        event: object,
        key: str,
        *,
        now_ms: int,
        by: str | None = None,
    ) -> Emission:
        """Return an event as an errand.

        Raises:
            InvalidInput: the name, the key or the payload is not valid; names the field.
        """
        known = self.sources.get(source) if isinstance(source, str) else source
        name = source if isinstance(source, str) else source.name
        if not is_name(name):
            raise InvalidInput.at(
                "source", repr(name)[:40], f"a Source, or an id of at most {_MAX_NAME}"
            )
        payload = plain_event(event) if known is None else known.plain(event)
        dedupe_ms = DEDUPE_MS if known is None else known.dedupe_ms
        check_text(key, field="key")
        check_limit("metadata_bytes", len(key.encode()), field="key")
        now, *others = (
            source_session(self.store.secret, name, month.name)
            for month in _months(now_ms, dedupe_ms)
        )
        request = TurnRequest(overrides={"source": name, "key": key, "event": payload})
        turn = NewTurn(agent=source_agent(name), request=cleaned(request), by=by, now_ms=now_ms)
        errand = AcceptTurn(
            session_id=now,
            turn_id=occurrence_id(key),
            turn=turn,
            kind="trigger",
            label=source_agent(name),
            known_in=tuple(others),
            at_top=True,
        )
        return Emission(errand, dedupe_ms)


def occurrence_id(key: str) -> str:
    """Return the id of an occurrence from the key of its event, which may be any text."""
    return f"e_{canonical.digest([key])[:_ID_HEX]}"


def source_session(secret: bytes, source: str, month: str) -> str:
    """Return the id of the session with a source's occurrences of one month."""
    return derived_session_id(secret, "trigger", "source", source, month)


class _Month(NamedTuple):
    name: str
    end_ms: int


def month_of(now_ms: int) -> str:
    """Return the month of an instant in UTC, such as `2026-11`."""
    return _month(_date(now_ms)).name


def _date(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms // _SECOND_MS, tz=UTC)


def _month(at: datetime) -> _Month:
    after = datetime(at.year + at.month // _MONTHS, at.month % _MONTHS + 1, 1, tzinfo=UTC)
    return _Month(at.strftime("%Y-%m"), int(after.timestamp()) * _SECOND_MS)


def _months(now_ms: int, dedupe_ms: int) -> list[_Month]:
    """Return the month of an instant, then the earlier months that `dedupe_ms` reaches, then the next month."""
    found = [_month(_date(now_ms))]
    earlier = max(0, now_ms - dedupe_ms)
    while (month := _month(_date(earlier))).end_ms < found[0].end_ms:
        found.append(month)
        earlier = month.end_ms
    found.append(_month(_date(found[0].end_ms)))
    return found


# ---------------------------------------------------------------------- deliveries


class Delivery(NamedTuple):
    """An occurrence to deliver, by its session and its id there; a key may come again in a later month."""

    source: str
    session_id: str
    turn_id: str
    request: TurnRequest
    now_ms: int

    @property
    def id(self) -> str:
        """The turn id of this delivery, the same for each subscriber."""
        return f"d_{canonical.digest([self.session_id, self.turn_id])[:_ID_HEX]}"

    def to(self, subscriber: str, place: DeliveryPlace) -> AcceptTurn:
        """Return the errand that delivers it to a subscriber."""
        turn = NewTurn(agent=subscriber_agent(subscriber), request=self.request, now_ms=self.now_ms)
        return AcceptTurn(
            session_id=place.session_id,
            turn_id=self.id,
            turn=turn,
            kind="trigger",
            label=place.label,
            at_top=True,
        )


class DeliveryPlace(NamedTuple):
    """The session of a delivery, and its label."""

    session_id: str
    label: str


def place_of(secret: bytes, delivery: Delivery, subscriber: str) -> DeliveryPlace:
    """Return where a delivery without an order runs."""
    names = ("on", subscriber, delivery.id)
    return DeliveryPlace(
        derived_session_id(secret, "trigger", *names), subscriber_agent(subscriber)
    )


async def ordered_place(
    store: Store, delivery: Delivery, subscriber: str, order_key: str
) -> DeliveryPlace:
    """Return where a delivery runs after earlier deliveries of its order key."""
    key = canonical.digest([delivery.source, order_key])[:_ID_HEX]
    label = f"{subscriber_agent(subscriber)}/{key}"
    names = ("on", subscriber, "key", key, month_of(delivery.now_ms))
    wanted = derived_session_id(store.secret, "trigger", *names)
    found = await store.list_sessions(kind="trigger", label=label)
    if all(one.session_id != wanted for one in found):
        for one in found:
            if await is_busy(store, one):
                return DeliveryPlace(one.session_id, label)
    return DeliveryPlace(wanted, label)


async def is_busy(store: Store, session: SessionSummary) -> bool:
    """Whether a session has unfinished turns."""
    if session.active is not None:
        return True
    return bool(await count_unfinished(store, session.session_id))


async def count_unfinished(store: Store, session_id: str) -> int:
    """Return how many turns of a session have not ended: none if it was reclaimed since it was listed."""
    try:
        view = await store.load_session(session_id, history=False)
    except SessionDeleted:
        return 0
    return (view.active is not None) + len(view.queued)
