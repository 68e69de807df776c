"""Skills: instructions in folders or made in code. The prompt has a line about each, and the model reads a skill when it needs it.

begin    the plugin scans the folders and records the briefs of this turn, which then stay as they are
read     the model reads a skill; from then on that skill's own tools may be called in this session
keep     while the last skill that was read says which tools are allowed, others are denied in this turn

What a turn knows of skills is in its state, so it is the same after a crash. The plugin itself holds only what it
read from files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

from windlass.errors import ConfigError, LimitExceeded, PathDenied, ToolError
from windlass.guards import INPUT_LIMITS, check_text, is_clean
from windlass.guards.media import media_type_of
from windlass.kernel import CompletedToolCall, Outcome, Text, canonical
from windlass.kernel.messages import ResultPart
from windlass.plugins import options, skill_folder
from windlass.plugins.front_matter import Unreadable
from windlass.plugins.kept_output import READER
from windlass.plugins.made_skill import Skill, placed_skills
from windlass.plugins.skill import (
    LeftOut,
    Scan,
    SkillFiles,
    SkillHead,
    SkillIndex,
    is_skill_name,
    read_skill,
)
from windlass.plugins.skill_folder import SKILL_FILE, Listed, as_shown, names_of
from windlass.ports import AskedCall, Contribution, Deny, Finale, Plugin, PluginTurn, Tool
from windlass.ports.tool import ToolContext
from windlass.tools import FunctionTool, tool
from windlass.tools.body import Body
from windlass.tools.toolbox import FINDER, Toolbox

__all__ = ["Skill", "Skills"]

SkillPrompter: TypeAlias = Callable[[Sequence[SkillHead]], str]
"""Writes what the prompt says of the skills on offer; each has a `name` and a `description`."""

_MIB: Final = 1024 * 1024
# A hook may record only so much; briefs that would not fit are shortened, all alike.
_MAX_BRIEFS_BYTES: Final = 32 * 1024
_MAX_TOLD: Final = 10
# What the model needs to get at its tools and at what they returned.
_ALWAYS_ALLOWED: Final = frozenset({FINDER, READER})
_MAX_TOLD_CHARS: Final = 200

_MAX_NAMED: Final = 50


class Image(NamedTuple):
    """A file that a model may look at."""

    path: str
    media_type: str
    data: bytes


class Skills(Plugin):
    """Skills by the Agent Skills convention: folders with a SKILL.md and files beside it, and skills made in code.

    Args:
        *sources: Folders that are one skill each, or hold some, and skills that are made in code: `Skill`.
        tool_name: What the tool is called with which the model reads a skill.
        tools: Tools of a skill, by its name: they may be called once the session has read it.
        enabled: The names of the skills to offer; None offers all.
        disabled: The names of skills that are not offered.
        enforce_allowed_tools: Whether a skill's `allowed-tools` bounds what is called while it is in use.
        max_file_bytes: How large a file of a skill may be; 1 MiB if nothing is said.
        prompter: Writes what the prompt says of the skills on offer; without it there is a line for each.
    """

    name = "skills"
    version = "1"

    def __init__(  # noqa: PLR0913 - a plugin has as many options as it has
        self,
        *sources: str | os.PathLike[str] | Skill,
        tool_name: str = "read_skill",
        tools: Mapping[str, Sequence[Tool]] | None = None,
        enabled: Collection[str] | None = None,
        disabled: Collection[str] = (),
        enforce_allowed_tools: bool = True,
        max_file_bytes: int = _MIB,
        prompter: SkillPrompter | None = None,
    ) -> None:
        skills = [one for one in sources if isinstance(one, Skill)]
        folders = [one for one in sources if not isinstance(one, Skill)]
        if folders:
            skill_folder.check_platform()
        if not sources:
            raise ConfigError.at("folders", "none", "at least one folder or Skill")
        most = INPUT_LIMITS.attachment_bytes
        options.whole(max_file_bytes, field="max_file_bytes", low=1, high=most, of="of bytes ")
        self._enabled = None if enabled is None else _names(enabled, "enabled")
        self._disabled = _names(disabled, "disabled")
        self._own_tools = _own_tools(tools)
        for skill in skills:
            if skill.tools:
                more = self._own_tools.get(skill.name, ())
                self._own_tools[skill.name] = (*skill.tools, *more)
        if prompter is not None and not callable(prompter):
            raise options.refused(prompter, "a function of the skills", field="prompter")
        self._prompter: SkillPrompter = prompter or _Briefs(tool_name)
        self._enforces = bool(enforce_allowed_tools)
        made = placed_skills(skills, max_file_bytes)
        self._index = SkillIndex(folders, max_bytes=max_file_bytes, made=made)
        self._scanning = Body(self._scan, name="skills")
        self._scan()
        named = {"tools": self._own_tools, "enabled": enabled or (), "disabled": self._disabled}
        for field, names in named.items():
            _check_known(names, self._index.last.names, field)
        self._tool_name = options.tool_name(tool_name, field="tool_name")
        self._max_bytes = max_file_bytes
        own = {id(tool): tool for tools in self._own_tools.values() for tool in tools}
        self._tools = (self._reading_tool(), *own.values())
        Toolbox(self._tools, field="tools")

    @property
    def left_out(self) -> tuple[str, ...]:
        """The skills that could not be read at the last look: file, line, reason."""
        return tuple(map(str, self._index.last.left_out))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was ignored or put right in skills that could be read at the last look."""
        placed = self._index.last.placed.values()
        return tuple(f"{one.skill.name}: {note}" for one in placed for note in one.skill.notes)

    def tools(self) -> Sequence[Tool]:
        """Return the tool that reads skills, and those that belong to skills."""
        return self._tools

    # ------------------------------------------------------------------ the turn begins

    async def before_turn(self, turn: PluginTurn) -> None:
        """Scan the folders, and record what this turn is told of them."""
        await self._begin(turn)

    async def prompt(self, turn: PluginTurn) -> Sequence[Contribution]:
        """Return the briefs of this turn."""
        briefs = turn.state.get("briefs")
        if briefs is None:
            briefs = await self._begin(turn)
        if not briefs:
            return ()
        return (Contribution(briefs, slot="guidance", title="Skills", gate=(self._tool_name,)),)

    async def _begin(self, turn: PluginTurn) -> str:
        seen = cast("Scan", await self._scanning.call())
        skills = [one.skill for one in seen.placed.values()]
        briefs = self._prompter(skills) if skills else ""
        check_text(briefs, field="prompter")
        if len(canonical.encode(briefs)) > _MAX_BRIEFS_BYTES:
            found = f"text of over {_MAX_BRIEFS_BYTES:,} bytes"
            raise LimitExceeded(f"prompter: found {found}", field="prompter")
        turn.patch(
            briefs=briefs,
            revisions={skill.name: skill.revision for skill in skills},
            left_out=_told(seen.left_out),
        )
        gone = [name for name in turn.memory.get("read", ()) if name not in seen.placed]
        if gone:
            turn.remember(read=dict.fromkeys(gone))
        for one in seen.left_out[:_MAX_TOLD]:
            turn.emit("skill_left_out", {"file": one.file, "line": one.line, "reason": one.reason})
        return briefs

    # ------------------------------------------------------------------ tools

    async def before_tool(self, turn: PluginTurn, call: AskedCall) -> Deny | None:
        """Deny tools of skills that were not read, and tools that the last skill read does not allow."""
        if call.name == self._tool_name:
            return None
        owners = self._owners(call.name)
        if owners and not any(owner in turn.memory.get("read", ()) for owner in owners):
            offered = [owner for owner in owners if owner in turn.state.get("revisions", owners)]
            belongs = f"{call.name} belongs to the skill {(offered or owners)[0]}"
            if not offered:
                return Deny(reason=f"{belongs}, which is not there now.")
            how = f'{self._tool_name}(name="{offered[0]}")'
            return Deny(reason=f"{belongs}. Read that first: {how}")
        opened, allowed = turn.state.get("opened"), turn.state.get("allowed")
        if not self._enforces or allowed is None or call.name in _ALWAYS_ALLOWED:
            return None
        if call.name in allowed or opened in owners:
            return None
        allows = f"the skill {opened}, which was read last, allows: {', '.join(allowed) or 'none'}"
        return Deny(reason=f"{call.name} is not among the tools that {allows}")

    async def after_tool(self, turn: PluginTurn, call: CompletedToolCall) -> None:
        """Record that a skill was read, and which tools it allows."""
        if call.name != self._tool_name or call.outcome.status != "ok":
            return
        skill_name = call.args.get("name")
        if not _is_skill_file(call.args.get("file") or SKILL_FILE):
            return
        seen = cast("Scan", await self._scanning.call())
        placed = seen.placed.get(skill_name or "")
        if placed is None:
            return
        skill = placed.skill
        allowed = None if skill.allowed_tools is None else list(skill.allowed_tools)
        turn.patch(opened=skill.name, allowed=allowed)
        turn.remember(read={skill.name: skill.revision})
        if turn.state.get("revisions", {}).get(skill.name) not in (None, skill.revision):
            turn.patch(changed={skill.name: True})
            turn.emit("skill_changed", {"skill": skill.name, "revision": skill.revision})

    async def after_turn(self, turn: PluginTurn, outcome: Outcome) -> Finale | None:  # noqa: ARG002 - the port's
        """Say which skills could not be read, and which changed while the turn ran."""
        issues = [f"skill left out: {text}" for text in turn.state.get("left_out", ())]
        issues += [
            f"skill {name}: SKILL.md changed while the turn ran, and the newer one was read"
            for name in sorted(turn.state.get("changed", ()))
        ]
        return Finale(issues=issues) if issues else None

    # ------------------------------------------------------------------ the tool that reads

    def _reading_tool(self) -> FunctionTool[Any, ..., Any]:
        """Return the tool with which the model reads skills."""
        reading = Body(self._read, name=f"tool {self._tool_name}")

        async def read_file(  # noqa: D417 - what a model is told of; it gives no context
            ctx: ToolContext[Any], name: str, file: str = SKILL_FILE
        ) -> str | list[ResultPart]:
            """Read the instructions of a skill, or one of its files.

            Args:
                name: The skill's name.
                file: A file by its path in the skill's folder. Left out: the instructions.
            """
            # Some models send an empty text for an argument that they could leave out.
            found = cast("str | Image", await reading.call(name, file or SKILL_FILE))
            if isinstance(found, str):
                return found
            label = found.path.rpartition("/")[2]
            attachment = await ctx.attach(found.data, media_type=found.media_type, name=label)
            said = f"{found.path}: {found.media_type}, {len(found.data):,} bytes"
            return [Text(text=said), attachment]

        return tool(read_file, name=self._tool_name, effect="pure")

    def _read(self, name: str, file: str) -> str | Image:
        """Return a file of a skill. Of SKILL.md: the instructions, and which files there are.

        Raises:
            ToolError: saying why it cannot be read, in words for the model.
        """
        folder = self._folder(name)
        try:
            names = names_of(file)
            data = folder.read(file, self._max_bytes)
            if names == (SKILL_FILE,):
                return self._instructions(name, folder, data)
        except (PathDenied, LimitExceeded) as error:
            raise ToolError(str(error)) from None
        except Unreadable as error:
            place = f"{as_shown(file)}: {error}"
            raise ToolError(f"{place}. The skill {name} cannot be used now.") from None
        return _content("/".join(names), data)

    def _folder(self, name: str) -> SkillFiles:
        placed = self._index.last.placed
        if name in placed:
            return placed[name].folder
        known = sorted(placed)
        more = ", …" if len(known) > _MAX_NAMED else ""
        there = f"there are: {', '.join(known[:_MAX_NAMED])}{more}" if known else "there is none"
        raise ToolError(f"name: found no skill {as_shown(name)}; {there}")

    def _instructions(self, name: str, folder: SkillFiles, data: bytes) -> str:
        skill, body = read_skill(data, folder=name)
        pieces = [f"Skill {name}, revision {skill.revision}", body or "(no instructions)"]
        if tools := self._own_tools.get(name):
            named = ", ".join(tool.spec.name for tool in tools)
            pieces.append(f"Tools of this skill: {named}")
        if skill.allowed_tools is not None and self._enforces:
            named = ", ".join(skill.allowed_tools) or "none"
            pieces.append(f"Other tools that may be called in this turn from now on: {named}")
        files, has_more = folder.files()
        if files:
            pieces.append(_listing(self._tool_name, name, files, has_more=has_more))
        return "\n\n".join(pieces)

    # ------------------------------------------------------------------ the index

    def _scan(self) -> Scan:
        return self._index.scan(enabled=self._enabled, disabled=self._disabled)

    def _owners(self, tool_name: str) -> list[str]:
        return [
            skill
            for skill, tools in self._own_tools.items()
            if any(tool.spec.name == tool_name for tool in tools)
        ]


class _Briefs:
    """Tells of each skill in a line."""

    def __init__(self, tool_name: str) -> None:
        self._head = (
            "Skills are instructions for certain tasks. When a task fits one of these, read it with "
            f"{tool_name} before you begin, and do as it says.\n\n"
        )

    def __call__(self, skills: Sequence[SkillHead], /) -> str:
        return _briefs(skills, self._head)


def _briefs(skills: Sequence[SkillHead], head: str) -> str:
    room = max(len(skill.description) for skill in skills)
    while True:
        made = head + "\n".join(f"- {one.name}: {_cut(one.description, room)}" for one in skills)
        if len(canonical.encode(made)) <= _MAX_BRIEFS_BYTES or room <= 1:
            return made
        room = room * 3 // 4


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(0, room - 1)].rstrip() + "…"


def _told(left_out: Sequence[LeftOut]) -> list[str]:
    told = [_cut(str(one), _MAX_TOLD_CHARS) for one in left_out[:_MAX_TOLD]]
    more = len(left_out) - len(told)
    return [*told, f"and {more:,} more"] if more else told


def _is_skill_file(file: object) -> bool:
    try:
        return isinstance(file, str) and names_of(file) == (SKILL_FILE,)
    except PathDenied:
        return False


def _listing(tool_name: str, name: str, files: Sequence[Listed], *, has_more: bool) -> str:
    lines = [f'Files of this skill, for {tool_name}(name="{name}", file=…):']
    lines += [f"- {file.path} ({file.n_bytes:,} bytes)" for file in files]
    if has_more:
        lines.append("- (there are more, which are not listed)")
    return "\n".join(lines)


def _content(path: str, data: bytes) -> str | Image:
    kind = media_type_of(data)
    if kind is not None and kind.startswith("image/"):
        return Image(path, kind, data)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return f"({path} is not text: {len(data):,} bytes, not UTF-8 from byte {error.start:,} on)"
    if not is_clean(text):
        return f"({path} is not text: {len(data):,} bytes, with NUL among them)"
    return text or f"({path} is empty)"


# ------------------------------------------------------------------------------------- options


def _names(given: object, field: str) -> frozenset[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise options.refused(given, "names of skills", field=field)
    names = list(given)
    for at, name in enumerate(names):
        if not is_skill_name(name):
            raise ConfigError.at(f"{field}[{at}]", f"{name!r:.80}", "the name of a skill")
    return frozenset(names)


def _own_tools(given: object) -> dict[str, tuple[Tool, ...]]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise options.refused(given, "lists of tools by the name of a skill", field="tools")
    _names(given, "tools")
    for name, tools in given.items():
        Toolbox(tools, field=f"tools[{name}]")  # refuses anything that is not a tool
    return {name: tuple(tools) for name, tools in given.items()}


def _check_known(names: Iterable[str], known: Collection[str], field: str) -> None:
    for name in sorted(names):
        if name not in known:
            wanted = ", ".join(sorted(known)[:_MAX_TOLD]) or "a folder with skills in it"
            raise ConfigError.at(field, f"{name}, which is in no folder", f"one of: {wanted}")
