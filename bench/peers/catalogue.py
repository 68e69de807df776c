"""Who is measured: every peer with its environment, its pinned releases and how it is set up."""

from __future__ import annotations

from typing import NamedTuple

HERE = "windlass"

PINS: dict[str, tuple[str, ...]] = {
    "langgraph": (
        "langgraph==1.2.20",
        "langgraph-checkpoint-sqlite==3.1.2",
        "langchain==1.4.7",
    ),
    "pydantic": ("pydantic-ai-slim[dbos]==2.66.0", "dbos==3.3.0"),
    "harness": ("pydantic-ai-harness==0.62.0",),
    "dbos": ("dbos==3.3.0",),
    "openai": ("openai-agents==0.24.0",),
    "adk": ("google-adk==2.13.0", "sqlalchemy[asyncio]", "aiosqlite"),
    "strands": ("strands-agents==1.62.0",),
    "agno": ("agno==3.1.10", "sqlalchemy[asyncio]", "aiosqlite"),
}


class Peer(NamedTuple):
    """One line of the table.

    `steps`: each step is stored as it happens, not only the end of the run.
    `keeps`: a new process finds its sessions again.
    """

    label: str
    environment: str
    module: str
    variant: str
    keeps: bool = True
    steps: bool = True


FLOOR = Peer("floor: one FULL commit per step", HERE, "floor", "full")
MEMORY_FLOOR = Peer("floor: nothing stored", HERE, "floor", "memory", keeps=False, steps=False)
GROUP_FLOOR = Peer("floor: commits shared", HERE, "floor", "group")
WINDLASS = Peer("windlass, tool is once", HERE, "windlass_turns", "once")
MEMORY_LANGGRAPH = Peer(
    "LangGraph, in memory", "langgraph", "langgraph_agent", "memory", keeps=False, steps=False
)

EVERYBODY: tuple[Peer, ...] = (
    MEMORY_FLOOR,
    FLOOR,
    GROUP_FLOOR,
    WINDLASS,
    Peer("windlass, tool is pure", HERE, "windlass_turns", "pure"),
    MEMORY_LANGGRAPH,
    Peer("LangGraph, SQLite sync", "langgraph", "langgraph_agent", "sync"),
    Peer("LangGraph, SQLite async", "langgraph", "langgraph_agent", "async"),
    Peer("Pydantic AI + DBOS, SQLite", "pydantic", "pydantic_dbos", "sqlite"),
    Peer("Pydantic AI, step store", "harness", "pydantic_steps", "sqlite"),
    Peer("DBOS, loop by hand, SQLite", "dbos", "dbos_loop", "sqlite"),
    Peer("OpenAI Agents, SQLiteSession", "openai", "openai_agents", "sqlite"),
    Peer("Google ADK, SQLite", "adk", "google_adk", "sqlite"),
    Peer("Strands, files", "strands", "strands_files", "files"),
    Peer("Agno, SQLite, end of run", "agno", "agno_agent", "end", steps=False),
    Peer("Agno, SQLite, tool batches", "agno", "agno_agent", "batch"),
)
