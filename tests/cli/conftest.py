"""Conversations that a test begins are closed when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.started import Begin, Chat


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    begun: list[Chat] = []

    def start(*args: str, **env: str) -> Chat:
        chat = Chat(tmp_path, "-m", "talkers:talker", "--session", "s", *args, **env)
        begun.append(chat)
        return chat

    yield start
    for chat in begun:
        chat.close()
