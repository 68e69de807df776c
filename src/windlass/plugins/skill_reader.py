"""The tool with which a model reads skills: their instructions, and the files beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from windlass.errors import LimitExceeded, PathDenied, ToolError
from windlass.guards.text import is_clean
from windlass.kernel.messages import ResultPart, Text
from windlass.plugins.front_matter import Unreadable
from windlass.plugins.skill import read_skill
from windlass.plugins.skill_folder import SKILL_FILE, Listed, SkillFolder, as_shown, names_of
from windlass.ports.tool import Tool, ToolContext
from windlass.tools import FunctionTool, tool
from windlass.tools.body import Body

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


class SkillReader(msgspec.Struct, frozen=True, kw_only=True):
    """Reads for the model what lies in skills' folders. `folders` tells which skills there are now."""

    tool_name: str
    folders: Callable[[], Mapping[str, SkillFolder]]
    own_tools: Mapping[str, Sequence[Tool]]
    enforces: bool
    max_bytes: int

    def tool(self) -> FunctionTool[..., Any]:
        """Return the tool."""
        reading = Body(self.read, name=f"tool {self.tool_name}")

        async def read_skill(  # noqa: D417 - what a model is told of; it gives no context
            ctx: ToolContext[Any], name: str, file: str = SKILL_FILE
        ) -> str | list[ResultPart]:
            """Read the instructions of a skill, or one of its files.

            Args:
                name: The skill's name.
                file: A file by its path in the skill's folder. Left out: the instructions.
            """
            found = cast("str | Image", await reading.call(name, file or SKILL_FILE))
            if isinstance(found, str):
                return found
            label = found.path.rpartition("/")[2]
            attachment = await ctx.attach(found.data, media_type=found.media_type, name=label)
            said = f"{found.path}: {found.media_type}, {len(found.data):,} bytes"
            return [Text(text=said), attachment]

        return tool(read_skill, name=self.tool_name, effect="pure")

    def read(self, name: str, file: str) -> str | Image:
        """Return a file of a skill. Of SKILL.md: the instructions, and which files there are.

        Raises:
            ToolError: saying why it cannot be read, in words for the model.
        """
        folder = self._folder(name)
        try:
            names = names_of(file)
            data = folder.read(file, self.max_bytes)
            if names == (SKILL_FILE,):
                return self._instructions(name, folder, data)
        except (PathDenied, LimitExceeded) as error:
            raise ToolError(str(error)) from None
        except Unreadable as error:
            place = f"{as_shown(file)}: {error}"
            raise ToolError(f"{place}. The skill {name} cannot be used now.") from None
        return _content("/".join(names), data)

    def _folder(self, name: str) -> SkillFolder:
        folders = self.folders()
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
        if tools := self.own_tools.get(name):
            named = ", ".join(tool.spec.name for tool in tools)
            pieces.append(f"Tools of this skill: {named}")
        if skill.allowed_tools is not None and self.enforces:
            named = ", ".join(skill.allowed_tools) or "none"
            pieces.append(f"Other tools that may be called in this turn from now on: {named}")
        files, has_more = folder.files()
        if files:
            pieces.append(_listing(self.tool_name, name, files, has_more=has_more))
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
