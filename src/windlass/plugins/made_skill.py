"""Skills that a program makes: held to the same rules as folders, because they are read as a SKILL.md too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from windlass.errors import ConfigError, LimitExceeded, PathDenied
from windlass.guards.text import is_clean
from windlass.kernel import canonical
from windlass.kernel.value import set_field
from windlass.plugins.front_matter import Unreadable
from windlass.plugins.skill import Placed, is_skill_name, read_skill
from windlass.plugins.skill_folder import SKILL_FILE, Listed, as_shown, names_of
from windlass.ports import Tool
from windlass.tools.toolbox import Toolbox

_NAME: Final = "1 to 64 of a-z 0-9, in words with - between them"


class Skill(msgspec.Struct, frozen=True, eq=False):
    """A skill made in code.

    `description` says what it does and when to use it, `text` are its instructions. `tools` may be called once the
    session has read it. `allowed_tools` names the only other tools that may be called while it is the skill that was
    read last; None: any. `files` are what its instructions refer to, by path: text or bytes.
    """

    name: str
    description: str
    text: str
    tools: Sequence[Tool] = ()
    allowed_tools: Sequence[str] | None = None
    files: Mapping[str, str | bytes] = {}

    def __post_init__(self) -> None:
        """Refuse what the model would be told wrongly or could not read, by field.

        Raises:
            ConfigError: naming the field, what was found and what was wanted.
        """
        if not is_skill_name(self.name):
            raise ConfigError.at("Skill.name", f"{self.name!r:.80}", _NAME)
        place = f"Skill {self.name}"
        for field in ("description", "text"):
            found = getattr(self, field)
            if not isinstance(found, str) or not found.strip() or not is_clean(found):
                raise ConfigError.at(f"{place}: {field}", type(found).__name__, "words")
        Toolbox(self.tools, field=f"{place}: tools")  # refuses anything that is not a tool
        set_field(self, "tools", tuple(self.tools))
        if self.allowed_tools is not None:
            set_field(self, "allowed_tools", _tool_names(self.allowed_tools, place))
        set_field(self, "files", _files(self.files, place))
        try:
            read_skill(self.as_file(), folder=self.name)
        except Unreadable as error:
            raise ConfigError(f"{place}: {error.reason}", field=place) from None

    def as_file(self) -> bytes:
        """Return the skill as a SKILL.md."""
        lines = ["---", f"name: {self.name}", f"description: {_quoted(self.description)}"]
        if self.allowed_tools is not None:
            listed = ", ".join(map(_quoted, self.allowed_tools))
            lines.append(f"allowed-tools: [{listed}]")
        return "\n".join([*lines, "---", self.text, ""]).encode()


class MadeFiles:
    """The files of a skill that was made in code."""

    def __init__(self, skill: Skill) -> None:
        texts = {SKILL_FILE: skill.as_file(), **skill.files}
        self._files = {
            path: data.encode() if isinstance(data, str) else bytes(data)
            for path, data in texts.items()
        }

    def read(self, path: str, limit: int) -> bytes:
        """Return the bytes of a file.

        Raises:
            PathDenied: there is no such file.
            LimitExceeded: it has more bytes than `limit`.
        """
        shown, data = as_shown(path), self._files.get("/".join(names_of(path)))
        if data is None:
            raise PathDenied(f"{shown}: found no such file", field=shown, found="no such file")
        if len(data) > limit:
            told = f"{shown}: found {len(data):,} bytes, the limit is {limit:,}"
            raise LimitExceeded(told, field=shown, found=len(data), wanted=limit)
        return data

    def files(self) -> tuple[list[Listed], bool]:
        """Return the files beside SKILL.md; all of them are listed."""
        listed = [Listed(path, len(data)) for path, data in self._files.items()]
        return sorted(one for one in listed if one.path != SKILL_FILE), False


def placed_skills(skills: Sequence[Skill], max_bytes: int) -> dict[str, Placed]:
    """Return skills by their names.

    Raises:
        ConfigError: two have the same name, or a file is too large.
    """
    placed: dict[str, Placed] = {}
    for skill in skills:
        if skill.name in placed:
            raise ConfigError.at("skills", f"two named {skill.name}", "a name for each")
        made = MadeFiles(skill)
        for path in (SKILL_FILE, *skill.files):
            try:
                data = made.read(path, max_bytes)
            except LimitExceeded as error:
                raise ConfigError(f"Skill {skill.name}: {error}", field="skills") from None
            if path == SKILL_FILE:
                head, _text = read_skill(data, folder=skill.name)
        placed[skill.name] = Placed(head, made)
    return placed


def _quoted(text: str) -> str:
    """Return text as the front matter reads it back, whatever is in it: one line."""
    return canonical.encode(" ".join(text.split())).decode()


def _tool_names(given: object, place: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError.at(
            f"{place}: allowed_tools", type(given).__name__, "a list of names of tools"
        )
    for at, name in enumerate(given):
        if not isinstance(name, str) or not name.strip():
            raise ConfigError.at(
                f"{place}: allowed_tools[{at}]", f"{name!r:.80}", "the name of a tool"
            )
    return tuple(given)


def _files(given: object, place: str) -> dict[str, str | bytes]:
    if not isinstance(given, Mapping):
        raise ConfigError.at(f"{place}: files", type(given).__name__, "text or bytes by path")
    files: dict[str, str | bytes] = {}
    for path, data in given.items():
        field = f"{place}: files[{path!r:.80}]"
        if not isinstance(path, str) or not isinstance(data, (str, bytes)):
            raise ConfigError.at(field, type(data).__name__, "text or bytes under a path")
        try:
            name = "/".join(names_of(path))
        except PathDenied as error:
            raise ConfigError.at(field, str(error.found), "a path such as notes/a.md") from None
        if name == SKILL_FILE or name in files:
            raise ConfigError.at(field, "a file that is there already", "another path")
        files[name] = data
    return files
