"""The options that several commands have, said once."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cyclopts import Parameter

StoreOption: TypeAlias = Annotated[
    str | None, Parameter(name=["--store", "-s"], help="the store: sqlite:///FILE, or a file name")
]
JsonOption: TypeAlias = Annotated[bool, Parameter(name="--json", help="JSON instead of text")]
AgentOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name=["--agent", "-m"],
        help="your agent as module:name; the folder that you are in is searched first",
    ),
]
ModelOption: TypeAlias = Annotated[
    str | None, Parameter(name="--model", help="the model as provider:model, or demo")
]
DepsOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--deps", help="module:name of a function that gives a turn what its tools need"
    ),
]
ByOption: TypeAlias = Annotated[
    str | None, Parameter(name="--by", help="who answers; a note that is kept with the answer")
]
SessionWord: TypeAlias = Annotated[str, Parameter(help="the session's id")]
KeyWord: TypeAlias = Annotated[
    str, Parameter(help="the key of the wait, or its beginning (windlass waits lists them)")
]
