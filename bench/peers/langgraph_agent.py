"""LangGraph through `create_agent`: `memory`, or SQLite with one of its durabilities, `async` (the default) or `sync`."""
# ruff: noqa: ANN401 - what a peer hands over has the peer's types, which are not installed here
# mypy: disable-error-code="import-not-found,misc,untyped-decorator"

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from bench.workloads.candidate import Candidate
from bench.workloads.child import main
from bench.workloads.script import script


class ScriptedChat(BaseChatModel):
    """The script as a chat model."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, _tools: Any, **_rest: Any) -> ScriptedChat:
        """Know the tools already."""
        return self

    def _generate(self, messages: Any, *_args: Any, **_rest: Any) -> Any:
        n_results, at = 0, len(messages) - 1
        while not isinstance(messages[at], HumanMessage):
            n_results += isinstance(messages[at], ToolMessage)
            at -= 1
        said = script.reply(messages[at].content, n_results, len(messages))
        if isinstance(said, str):
            reply = AIMessage(said)
        else:
            calls = [{"name": "sound", "args": args, "id": script.call_id()} for args in said]
            reply = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])

    async def _agenerate(self, messages: Any, *_args: Any, **_rest: Any) -> Any:
        return self._generate(messages)


@tool
async def sound(i: int) -> str:
    """Sound the depth."""
    return await script.run_tool(i)


class LangGraph(Candidate):
    """One graph for all sessions, which are its threads."""

    async def open(self) -> None:
        """Compile the graph."""
        self._saving: Any = None
        self._options: dict[str, str] = {}
        saver: Any = InMemorySaver()
        if self.variant != "memory":
            self._saving = AsyncSqliteSaver.from_conn_string(str(self.folder / "langgraph.db"))
            saver = await self._saving.__aenter__()
            self._options = {"durability": self.variant}
        self._agent = create_agent(ScriptedChat(), [sound], checkpointer=saver)

    async def turn(self, session: str, asked: str) -> str:
        """Invoke the graph with a message."""
        return await self._invoke(session, {"messages": [HumanMessage(asked)]})

    async def resume(self, session: str, asked: str) -> str:
        """Invoke the graph without input: it goes on from its last checkpoint."""
        del asked
        return await self._invoke(session, None)

    async def close(self) -> None:
        """Close the file."""
        if self._saving is not None:
            await self._saving.__aexit__(None, None, None)

    async def _invoke(self, session: str, given: Any) -> str:
        config = {"configurable": {"thread_id": session}, "recursion_limit": 9_999}
        found = await self._agent.ainvoke(given, config, **self._options)
        return str(found["messages"][-1].content)


if __name__ == "__main__":
    main(LangGraph)
