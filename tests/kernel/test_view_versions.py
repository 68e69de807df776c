"""Every version of a history is shown as itself, at the cost of what is new; and the view in force is machine state."""

from __future__ import annotations

import pytest

from tests.kernel.builders import ADD, ask, config, machine, restored, user
from tests.kernel.shown_history import ALL, CLEARED, HISTORY, said, shown
from windlass.kernel import (
    Chain,
    ChatProjector,
    Environment,
    EnvironmentSynced,
    HistoryView,
    Message,
    ModelMessage,
    ProjectorView,
    Text,
    TurnMachine,
    canonical,
)
from windlass.kernel.history_view import shown_messages

# --- versions and cost ---------------------------------------------------------------------------


VIEW = HistoryView(drop_before="u2", clear_before="a4")


def versions() -> list[Chain[Message]]:
    grown = [Chain(HISTORY[:1])]
    for message in HISTORY[1:]:
        grown.append(grown[-1].append(message))
    return grown


def test_every_version_of_a_history_is_shown_as_itself_in_any_order() -> None:
    grown = versions()
    settings = config(view=VIEW)

    def sent(history: Chain[Message]) -> list[ModelMessage]:
        return list(
            ChatProjector().project(ProjectorView(config=settings, messages=history)).messages
        )

    for length in (9, 1, 5, 7, 3, 8, 9):
        assert sent(grown[length - 1]) == sent(Chain(HISTORY[:length]))
    # Before the edges come into the history they say nothing.
    assert said(sent(grown[2])) == ALL[:3]
    assert said(sent(grown[8])) == ["two", "?c3", f"!c3:{CLEARED}", "done two", "three"]


def test_the_next_request_shares_with_the_last_one_what_it_repeats() -> None:
    settings = config(view=VIEW)
    grown = versions()
    first = ChatProjector().project(ProjectorView(config=settings, messages=grown[7]))
    # An equal view, as it comes back from storage.
    again = config(view=canonical.decode(canonical.encode(VIEW), HistoryView))
    second = ChatProjector().project(ProjectorView(config=again, messages=grown[8]))

    assert len(second.messages) == 5
    for at in range(4):
        assert first.messages[at] is second.messages[at]


def test_views_that_come_and_go_take_nothing_from_what_others_keep_with_a_history() -> None:
    history = Chain(HISTORY)
    kept: list[list[int]] = [history.memo(key, list) for key in range(3)]
    edges = ["u1", "a1", "r1", "a2", "u2", "u1"]

    for edge in edges:
        settings = config(view=HistoryView(drop_before=edge))
        request = ChatProjector().project(ProjectorView(config=settings, messages=history))
        assert said(list(request.messages))[-1] == "three"
        assert len(request.messages) == len(shown(drop_before=edge))
    for key in range(3):
        assert kept[key] is history.memo(key, lambda: pytest.fail("it was gone"))


def test_the_view_before_the_one_in_force_is_still_at_hand() -> None:
    history = Chain(HISTORY)
    first, second, third = [HistoryView(drop_before=edge) for edge in ("u2", "a3", "u4")]
    before = shown_messages(history, first)
    assert shown_messages(history, second).memo("mark", list) == []

    assert shown_messages(history, first).memo("mark", list) is before.memo("mark", list)
    shown_messages(history, third)
    assert shown_messages(history, first).memo("mark", list) is not before.memo("mark", list)


def test_what_is_in_front_of_the_edge_is_not_rendered() -> None:
    class Unread(str):
        """Text that nobody may look at."""

        __slots__ = ()

        def isspace(self) -> bool:
            raise AssertionError("looked at")

    old = Message(id="u0", role="user", parts=(Text(text=Unread("old")),))

    assert said(shown(old, user("new"), drop_before="u1")) == ["new"]


# --- in force in a turn --------------------------------------------------------------------------


def test_a_returned_view_is_in_force_until_another_comes() -> None:
    settings = config(sync_environment=True, tools=(ADD,), view=HistoryView(drop_before="u2"))
    turn = TurnMachine(settings, HISTORY)
    ask(turn)
    assert turn.snapshot().environment is None

    turn.respond(EnvironmentSynced(id=1, result=Environment(view=VIEW)))

    again = restored(turn, settings)
    asked = ask(again)
    assert said(list(asked.request.messages))[:3] == ["two", "?c3", f"!c3:{CLEARED}"]
    assert asked == ask(turn)
    assert turn.snapshot().environment == Environment(view=VIEW)
    assert settings.view == HistoryView(drop_before="u2")


def test_without_an_environment_the_view_of_the_turn_is_in_force() -> None:
    turn = TurnMachine(config(view=HistoryView(drop_before="u4")), HISTORY)

    assert said(list(ask(turn).request.messages)) == ["three"]


def test_an_environment_without_a_view_shows_everything_again() -> None:
    turn = machine(sync_environment=True, view=HistoryView(drop=("u1",)))
    ask(turn)
    turn.respond(EnvironmentSynced(id=1, result=Environment()))

    assert said(list(ask(turn).request.messages)) == ["hi"]
