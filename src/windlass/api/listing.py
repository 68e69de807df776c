"""Lists: the sessions and turns of a store, a page at a time; one as text; what they used; what happens in all of them."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, get_args

from windlass.errors import InvalidInput, SessionDeleted
from windlass.guards import check_limit, check_text
from windlass.ports import SessionKind, SessionSummary, TurnState, TurnSummary

if TYPE_CHECKING:
    # As in `runtime`: loaded when they are needed.
    from windlass.api.notices import NoticeKind, Notices
    from windlass.api.usage_report import UsageReport
    from windlass.engines.admission import Admission
    from windlass.journal import UsageLine


class Listing:
    """What a runtime shows of its whole store."""

    _admission: Admission

    async def sessions(
        self,
        *,
        after: str = "",
        limit: int = 100,
        agent: str | None = None,
        kind: SessionKind | None = "chat",
        started_by: str | None = None,
    ) -> tuple[SessionSummary, ...]:
        """Return sessions by id, a page at a time.

        Args:
            after: The last id of the page before.
            limit: How many to return at most.
            agent: Only sessions of this agent.
            kind: Only sessions of this kind; None for every kind.
            started_by: Only sessions that this one started.
        """
        check_text(after, field="after")
        _check_one_of("kind", kind, get_args(SessionKind))
        return await self._admission.services.store.list_sessions(
            after=after, limit=check_page(limit), agent=agent, kind=kind, started_by=started_by
        )

    async def turns(
        self,
        *,
        state: TurnState | None = None,
        agent: str | None = None,
        session_id: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[TurnSummary, ...]:
        """Return turns, the newest first, a page at a time.

        Args:
            state: Only turns in this state: queued, running, parked, ready or done.
            agent: Only turns of this agent.
            session_id: Only turns of this session.
            before: The `no` of the last turn of the page before.
            limit: How many to return at most.
        """
        _check_one_of("state", state, get_args(TurnState))
        if before is not None and (type(before) is not int or before < 1):
            raise InvalidInput("before: wanted the number of a turn", field="before")
        return await self._admission.services.store.list_turns(
            state=state, agent=agent, session_id=session_id, before=before, limit=check_page(limit)
        )

    def observe(
        self,
        *,
        sessions: Collection[str] | None = None,
        kinds: Collection[NoticeKind] | None = None,
        cursor: str | None = None,
    ) -> Notices:
        """Watch all sessions: turns that begin, rest and end, waits that open and are answered, workers that come and go.

        Args:
            sessions: Only what happens in these.
            kinds: Only notices of these kinds.
            cursor: The `cursor` of a notice, to go on behind it, in any process.
        """
        from windlass.api.notices import Notices  # noqa: PLC0415 - see above

        return Notices(self._admission, sessions=sessions, kinds=kinds, cursor=cursor)

    async def export_session(self, id: str) -> list[str]:
        """Return a session as text, a line per turn and per attachment: what `import_session` reads.

        Args:
            id: The session. Its unfinished turn is not exported.
        """
        from windlass.api.archive import export_session  # noqa: PLC0415 - see above

        return await export_session(self._admission.services.store, id)

    async def usage(self) -> UsageReport:
        """Return what all sessions of the store have used."""
        from windlass.api.usage_report import UsageReport, usage_of_session  # noqa: PLC0415 - see above

        lines: list[UsageLine] = []
        after = ""
        while page := await self.sessions(after=after, kind=None):
            for one in page:
                with suppress(SessionDeleted):  # between the two reads
                    lines += await usage_of_session(self._admission.services.store, one.session_id)
            after = page[-1].session_id
        return UsageReport.of(lines, self._admission.services.prices)


def check_page(limit: object) -> int:
    """Return how many lines a page may have.

    Raises:
        InvalidInput: it is not a number of lines.
        LimitExceeded: it is more than a store shows at once.
    """
    if type(limit) is not int or limit < 1:
        raise InvalidInput("limit: wanted a whole number of 1 or more", field="limit")
    check_limit("history_page", limit, field="limit")
    return limit


def _check_one_of(field: str, found: object, known: tuple[str, ...]) -> None:
    if found is not None and found not in known:
        raise InvalidInput.at(field, repr(found)[:40], f"one of {', '.join(known)}")
