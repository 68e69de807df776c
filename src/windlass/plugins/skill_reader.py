"""The tool with which a model reads skills: their instructions, and the files beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from windlass.errors import ConfigError, InvalidInput, LimitExceeded, PathDenied, ToolError
from windlass.guards.text import is_clean
from windlass.kernel.messages import ResultPart, Text
from windlass.kernel.tool_call import ToolSpec
from windlass.plugins.front_matter import Unreadable
from windlass.plugins.skill import read_skill
from windlass.plugins.skill_folder import SKILL_FILE, Listed, SkillFolder, as_shown, names_of
from windlass.ports.tool import Tool, ToolContext
from windlass.tools.body import Body
from windlass.tools.dynamic_tool import DynamicTool

_MAX_NAMED: Final = 50
_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class Image(NamedTuple):
    """A file that a model may look at."""

    path: str
    media_type: str
    data: bytes


class SkillReader:
    """Reads for the model what lies in skills' folders. `folders` tells which skills there are now."""

    def __init__(
        self,
        *,
        tool_name: str,
        folders: Callable[[], Mapping[str, SkillFolder]],
        own_tools: Mapping[str, Sequence[Tool]],
        enforces: bool,
        max_bytes: int,
    ) -> None:
        self._tool_name = tool_name
        self._folders = folders
        self._own_tools = own_tools
        self._enforces = enforces
        self._max_bytes = max_bytes
        self._reading = Body(self.read, name=f"tool {tool_name}")

    def tool(self) -> DynamicTool:
        """Return the tool.

        Raises:
            ConfigError: `tool_name` cannot be the name of a tool.
        """
        return DynamicTool(_spec(self._tool_name), self._run, effect="pure")

    async def _run(self, ctx: ToolContext[Any], args: dict[str, Any]) -> str | list[ResultPart]:
        found = cast("str | Image", await self._reading.call(args["name"], file_of(args)))
        if isinstance(found, str):
            return found
        name = found.path.rpartition("/")[2]
        attachment = await ctx.attach(found.data, media_type=found.media_type, name=name)
        said = f"{found.path}: {found.media_type}, {len(found.data):,} bytes"
        return [Text(text=said), attachment]

    def read(self, name: str, file: str) -> str | Image:
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

    def _folder(self, name: str) -> SkillFolder:
        folders = self._folders()
        folder = folders.get(name)
        if folder is not None:
            return folder
        known = sorted(folders)
        more = ", …" if len(known) > _MAX_NAMED else ""
        there = f"there are: {', '.join(known[:_MAX_NAMED])}{more}" if known else "there is none"
        raise ToolError(f"name: found no skill {as_shown(name)}; {there}")

    def _instructions(self, name: str, folder: SkillFolder, data: bytes) -> str:
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


def _listing(tool_name: str, name: str, files: Sequence[Listed], *, has_more: bool) -> str:
    lines = [f'Files of this skill, for {tool_name}(name="{name}", file=…):']
    lines += [f"- {file.path} ({file.n_bytes:,} bytes)" for file in files]
    if has_more:
        lines.append("- (there are more, which are not listed)")
    return "\n".join(lines)


def _content(path: str, data: bytes) -> str | Image:
    if kind := _image_type(data):
        return Image(path, kind, data)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return f"({path} is not text: {len(data):,} bytes, not UTF-8 from byte {error.start:,} on)"
    if not is_clean(text):
        return f"({path} is not text: {len(data):,} bytes, with NUL among them)"
    return text or f"({path} is empty)"


def _image_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _IMAGES if data.startswith(start)), None)


def file_of(args: Mapping[str, Any]) -> str:
    """Return which file a call asks for. Some models send an empty text for an argument that they could leave out."""
    file: str = args.get("file") or SKILL_FILE
    return file


def _spec(tool_name: str) -> ToolSpec:
    try:
        return ToolSpec(
            name=tool_name,
            description="Read the instructions of a skill, or one of its files.",
            parameters={
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The skill's name."},
                    "file": {
                        "type": "string",
                        "description": "A file by its path in the skill's folder. Left out: the instructions.",
                        "default": SKILL_FILE,
                    },
                },
                "required": ["name"],
                "additionalProperties": False,
            },
        )
    except InvalidInput as error:
        raise ConfigError(f"tool_name: {error}", field="tool_name", wanted=error.wanted) from None
