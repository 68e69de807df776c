"""What the sessions of a round say themselves: their calls with the results, the items that came, what they were asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.durability.errands import plan
from windlass.journal import HistoryPage, PluginRemembered
from windlass.kernel import ConversationRecord, Text, ToolCall, ToolResult
from windlass.ports import SessionView


class Call(NamedTuple):
    """A tool call as its session's history has it; `status` is empty where it has no result."""

    session_id: str
    turn_id: str
    call_id: str
    name: str
    of: str
    status: str = ""
    word: str = ""

    def __str__(self) -> str:
        return f"{self.session_id}/{self.turn_id}/{self.call_id}"


def calls_in(session: SessionView) -> Iterator[Call]:
    """Return the calls of a session with their results."""
    for page in session.pages:
        asked: dict[str, Call] = {}
        for part in _parts(page):
            if isinstance(part, ToolCall):
                place = (session.session_id, page.turn_id, part.call_id)
                asked[part.call_id] = Call(*place, part.name, str(part.args["of"]))
            elif isinstance(part, ToolResult):
                word = "".join(one.text for one in part.content if isinstance(one, Text))
                call = asked[part.call_id]
                asked[part.call_id] = call._replace(status=part.status, word=word)
        yield from asked.values()


def news_in(session: SessionView) -> Iterator[tuple[str, str]]:
    """Return the items that arrived in a session, each with its word."""
    for text in _texts(session.pages):
        if text.startswith("News "):
            _, item_id, word = text.split()
            yield item_id, word


def task_in(page: HistoryPage) -> list[str]:
    """Return the words of the task that a turn was given."""
    return next((plan.words_of(text) for text in _tasks((page,))), [])


def word_asked(child: SessionView) -> str:
    """Return the word that the parent's call put into a child's task."""
    return next((text.partition("#")[2] for text in _tasks(child.pages)), "")


def told_at_end(session: SessionView) -> Iterator[str]:
    """Return the word with which a child answered as it ended."""
    for page in session.pages:
        for node in page.nodes:
            if isinstance(node, PluginRemembered):
                yield str(node.memory["told"])


def _tasks(pages: tuple[HistoryPage, ...]) -> Iterator[str]:
    return (text for text in _texts(pages) if text.startswith("Do "))


def _texts(pages: tuple[HistoryPage, ...]) -> Iterator[str]:
    return (part.text for page in pages for part in _parts(page) if isinstance(part, Text))


def _parts(page: HistoryPage) -> Iterator[object]:
    for node in page.nodes:
        if isinstance(node, ConversationRecord):
            yield from node.message.parts
