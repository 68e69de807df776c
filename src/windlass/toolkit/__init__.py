"""Tools to start with: each with its effect contract, its limits, and a question to a person where it acts.

Law 1. What a tool may reach is fixed when it is made; nothing that a model says widens it.
Law 2. A refusal tells the model what was found and what to do instead, and nothing else of this machine.
Law 3. What only one tool needs is imported when that tool is made.
"""

from windlass.toolkit.files.folder import PROTECTED
from windlass.toolkit.files.tools import files
from windlass.toolkit.notes.shelf import FolderShelf, Shelf
from windlass.toolkit.notes.tools import memory, notes, todo
from windlass.toolkit.person import ask_person
from windlass.toolkit.run_python import python
from windlass.toolkit.shell.tool import shell
from windlass.toolkit.web.fetch import fetch
from windlass.toolkit.web.search import Brave, Hit, SearchEngine, web_search

__all__ = [
    "PROTECTED",
    "Brave",
    "FolderShelf",
    "Hit",
    "SearchEngine",
    "Shelf",
    "ask_person",
    "fetch",
    "files",
    "memory",
    "notes",
    "python",
    "shell",
    "todo",
    "web_search",
]
