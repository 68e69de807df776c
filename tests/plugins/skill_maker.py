"""Folders of skills, made by hand on a real file system."""

from __future__ import annotations

from pathlib import Path


def make_skill(
    root: Path,
    name: str,
    *more: str,
    description: str = "",
    body: str = "Do it well.",
    files: dict[str, str | bytes] | None = None,
) -> Path:
    """Write a skill into `root`; `more` are further lines of its front matter."""
    folder = root / name
    said = description or f"What {name} is for."
    text = "\n".join(["---", f"name: {name}", f"description: {said}", *more, "---", body, ""])
    for path, content in {"SKILL.md": text, **(files or {})}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
