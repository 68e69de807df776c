"""A program that makes calls of the file tools as another user, and says what each was answered.

    python files_other_user.py FOLDER USER GROUPS WHICH CALLS

Started by root, who opens the folder; then it becomes USER, in the GROUPS (the first one is its own). WHICH is `real`, or
`effective` for a program that acts for the user and could be root again. CALLS and the answers are JSON.
"""

from __future__ import annotations

import fcntl  # noqa: F401 - loaded now: the user may not be able to read it
import json
import os
import sys
from pathlib import Path

from tests.toolkit.files_scene import FileTools


def become(user: int, groups: list[int], which: str) -> None:
    os.setgroups(groups)
    if which == "real":
        os.setgid(groups[0])
        os.setuid(user)
    else:
        os.setegid(groups[0])
        os.seteuid(user)
    os.umask(0o022)


if __name__ == "__main__":
    folder, user, groups, which, calls = sys.argv[1:]
    tools = FileTools(Path(folder))
    become(int(user), json.loads(groups), which)
    answers = [
        tools.call(name, args, f"key-{n}") for n, (name, args) in enumerate(json.loads(calls))
    ]
    sys.stdout.write(json.dumps(answers))
