"""`windlass record`: a call to a model becomes a file without keys, and --check plays it again."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.started import COMMAND, clean_environment, take_sigint, values, windlass
from tests.cli.test_reading import documented
from tests.limits import HANGS_S
from tests.models import wire_anthropic as claude
from tests.models.echo_adapters import ECHOES

CANARY = "sk-canary-Zx81Qw77Lm20-and-more"
TOKEN = "token-canary-5550199-and-more"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


class Playing(BaseHTTPRequestHandler):
    """A provider: one answer for all, with headers that name the account."""

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Provider)
        server.seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(server.status)
        self.send_header("content-type", server.kind)
        self.send_header("x-request-id", "req_canary0123456")
        self.send_header("openai-organization", "org-canary0123")
        self.end_headers()
        self.wfile.write(server.body)
        self.wfile.flush()
        server.asked.set()
        server.goes_on.wait(HANGS_S)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class Provider(ThreadingHTTPServer):
    """Where it listens: what it was sent, and what it answers. While `goes_on` is not set, answers stay open."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Playing)
        self.seen: list[dict[str, Any]] = []
        self.status, self.kind, self.body = 200, "text/event-stream", b""
        self.asked, self.goes_on = threading.Event(), threading.Event()
        self.goes_on.set()


@pytest.fixture
def server() -> Iterator[Provider]:
    with Provider() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.goes_on.set()
        made.shutdown()


def environment(server: Provider, **more: str) -> dict[str, str]:
    place = f"http://127.0.0.1:{server.server_port}"
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")
    return clean_environment(
        **dict.fromkeys(keys, CANARY),
        MY_SERVICE_TOKEN=TOKEN,
        OPENAI_BASE_URL=f"{place}/v1",
        ANTHROPIC_BASE_URL=place,
        GOOGLE_GEMINI_BASE_URL=place,
        **more,
    )


@pytest.mark.parametrize("provider", ECHOES)
def test_a_call_is_recorded_without_keys_and_played_again(
    provider: str, server: Provider, tmp_path: Path
) -> None:
    echo = ECHOES[provider]
    server.body = echo.text("Your key is ", CANARY[:9], CANARY[9:], ".")
    env = environment(server)

    done = windlass(
        "record", echo.name, f"Which key? {TOKEN}", "-o", "bug.json", cwd=tmp_path, env=env
    )
    assert done.returncode == 0, done.stderr
    rows = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in done.stdout.splitlines()]
    shown = {row[0]: row[-1] for row in rows}
    assert shown["asked"] == "Which key? [MY_SERVICE_TOKEN]"
    assert shown["model"] == echo.name
    assert shown["read as"] == "a reply, stop"
    assert shown["taken out"] == "keys, signatures"
    assert shown["file"].startswith("bug.json (")
    assert "windlass record --check bug.json" in done.stdout
    assert "Read it, then attach it" in done.stdout
    text = (tmp_path / "bug.json").read_text()
    assert "_API_KEY]." in text
    assert "canary" not in text + done.stdout + done.stderr
    assert "127.0.0.1" not in text
    assert TOKEN in json.dumps(server.seen)  # the red proof: the model was really asked that

    played = windlass("record", "--check", "bug.json", cwd=tmp_path)  # no key, no address
    assert played.returncode == 0, played.stderr
    assert played.stdout == (
        f"bug.json: read as it was recorded ({echo.name}, recorded by release 0.1.0)\n"
    )


def test_a_file_that_is_read_differently_is_told_with_the_difference(
    server: Provider, tmp_path: Path
) -> None:
    server.body = claude.answer(claude.text(0, "Four.")).body
    env = environment(server)
    windlass("record", "anthropic:claude-sonnet-4-5", "2 + 2?", "-o", "a.json", cwd=tmp_path, env=env)  # fmt: skip
    file = tmp_path / "a.json"
    file.write_text(file.read_text().replace(r"\"Four.\"", r"\"Five.\""))

    done = windlass("record", "--check", "a.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "a.json: read differently now" in done.stdout
    assert '-    "text": "Four.",' in done.stdout
    assert '+    "text": "Five.",' in done.stdout
    (told,) = values(windlass("record", "--check", "a.json", "--json", cwd=tmp_path))
    assert set(told) == documented("`record --check`")
    assert told["is_same"] is False
    assert (told["recorded"]["reply"]["text"], told["found"]["reply"]["text"]) == ("Four.", "Five.")


def test_a_call_that_fails_is_a_recording_too(server: Provider, tmp_path: Path) -> None:
    server.status, server.kind = 429, "application/json"
    server.body = (
        b'{"error": {"type": "rate_limit_error", "message": "Slow down, org-canary0123."}}'
    )
    env = environment(server)

    done = windlass("record", "anthropic:claude-sonnet-4-5", "Hi", "--json", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    (told,) = values(done)
    assert set(told) == documented("`record`")
    assert told["file"] == "anthropic-claude-sonnet-4-5.json"
    assert told["status"] == 429
    assert told["error"] == {
        "class": "Throttled",
        "message": "anthropic: status 429: rate_limit_error: Slow down, [org].",
    }
    assert "canary" not in (tmp_path / told["file"]).read_text()
    again = windlass("record", "anthropic:claude-sonnet-4-5", "Hi", "--json", cwd=tmp_path, env=env)
    assert values(again)[0]["file"] == "anthropic-claude-sonnet-4-5-2.json"


def test_everything_that_can_be_asked_for_is_sent(server: Provider, tmp_path: Path) -> None:
    server.body = claude.answer(claude.text(0, "Hm.")).body
    tools = [{"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {}}}]  # fmt: skip
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    (tmp_path / "cat.png").write_bytes(PNG)
    words = ["record", "anthropic:claude-sonnet-4-5", "--system", "Be brief.", "--variant", "low"]
    words += ["--tools", "tools.json", "--image", "cat.png", "--scrub", "personal", "-o", "a.json"]

    done = windlass(*words, cwd=tmp_path, env=environment(server), said="Call ada@example.org.")
    assert done.returncode == 0, done.stderr
    (body,) = server.seen
    assert "Be brief." in json.dumps(body["system"])
    assert [tool["name"] for tool in body["tools"]] == ["add"]
    assert body["thinking"]["budget_tokens"] == 2048
    kinds = [each["type"] for each in body["messages"][0]["content"]]
    assert sorted(kinds) == ["image", "text"]
    text = (tmp_path / "a.json").read_text()
    assert "Call [email]." in text
    assert "iVBORw0KGgo" not in text

    repeated = ["record", "anthropic:claude-sonnet-4-5", "--request", "a.json", "-o", "b.json"]
    done = windlass(*repeated, cwd=tmp_path, env=environment(server))
    assert done.returncode == 2, done.stdout
    assert "found an attachment" in done.stderr  # its bytes are in no recording
    done = windlass(*repeated, "--image", "cat.png", cwd=tmp_path, env=environment(server))
    assert done.returncode == 0, done.stderr
    first, second = (str(each["messages"][0]["content"]) for each in server.seen)
    assert second == first.replace("ada@example.org", "[email]")


@pytest.mark.parametrize("kind", ["recording", "request"])
def test_a_request_is_sent_again(kind: str, server: Provider, tmp_path: Path) -> None:
    server.body = claude.answer(claude.text(0, "Hm.")).body
    (tmp_path / "schema.json").write_text('{"type": "object", "properties": {}}')
    env = environment(server)
    words = ["record", "anthropic:claude-sonnet-4-5", "Hi", "--schema", "schema.json", "-o", "a.json"]  # fmt: skip
    assert windlass(*words, cwd=tmp_path, env=env).returncode == 0
    if kind == "request":
        asked = json.loads((tmp_path / "a.json").read_text())["asked"]
        (tmp_path / "a.json").write_text(json.dumps(asked))

    done = windlass(
        "record", "anthropic:claude-sonnet-4-5", "--request", "a.json", "-o", "b.json",
        cwd=tmp_path, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert server.seen[0] == server.seen[1]


BAD: dict[str, tuple[list[str], str]] = {
    "no model": ([], "model: found none, wanted a model"),
    "no provider": (["demo", "Hi"], "model: found 'demo', wanted provider:model"),
    "a typo": (["antropic:x", "Hi"], "did you mean anthropic?"),
    "no network": (["local:smollm2", "Hi"], "model: found local:smollm2, wanted a model that a provider's API"),
    "no words": (["openai:gpt-5"], "prompt: found no text"),
    "no key": (["openai:gpt-5", "Hi"], "set the environment variable OPENAI_API_KEY"),
    "a file": (["anthropic:x", "Hi", "-o", "taken.json"], "out: found taken.json, which exists"),
    "no folder": (["anthropic:x", "Hi", "-o", "none/a.json"], "out: found no folder none"),
    "no tools": (["anthropic:x", "Hi", "--tools", "none.json"], "tools: none.json: No such file"),
    "odd tools": (["anthropic:x", "Hi", "--tools", "taken.json"], "tools: found dict, wanted a JSON list"),
    "no image": (["anthropic:x", "Hi", "--image", "taken.json"], "image: found bytes of no known kind"),
    "no request": (["anthropic:x", "--request", "taken.json"], "request: "),
    "two requests": (["anthropic:x", "Hi", "--request", "taken.json"], "request: found prompt beside it"),
    "no recording": (["--check", "taken.json"], "format"),
    "later": (["--check", "later.json"], "format: found 2, wanted 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_done_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    words, told = BAD[name]
    (tmp_path / "taken.json").write_text('{"type": "object"}')
    (tmp_path / "later.json").write_text('{"format": 2}')
    env = clean_environment(ANTHROPIC_API_KEY=CANARY)
    if name == "no words":
        env["OPENAI_API_KEY"] = CANARY

    done = windlass("record", *words, cwd=tmp_path, env=env, said="")
    assert done.returncode == (4 if name == "later" else 2), done.stderr
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["later.json", "taken.json"]


def test_a_file_that_exists_is_replaced_with_force(server: Provider, tmp_path: Path) -> None:
    server.body = claude.answer(claude.text(0, "Hm.")).body
    (tmp_path / "a.json").write_text("mine")
    words = ["record", "anthropic:claude-sonnet-4-5", "Hi", "-o", "a.json"]

    assert windlass(*words, cwd=tmp_path, env=environment(server)).returncode == 2
    assert server.seen == []  # nothing was paid for
    assert windlass(*words, "--force", cwd=tmp_path, env=environment(server)).returncode == 0
    assert json.loads((tmp_path / "a.json").read_text())["format"] == 1


def test_ctrl_c_leaves_no_file(server: Provider, tmp_path: Path) -> None:
    server.body = claude.answer(claude.text(0, "One, ")).body[:200]
    server.goes_on.clear()  # the answer stays open
    with subprocess.Popen(
        [*COMMAND, "record", "anthropic:claude-sonnet-4-5", "Hi", "-o", "a.json"],
        cwd=tmp_path,
        env=environment(server),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=take_sigint,  # noqa: PLW1509 - it only sets a signal
    ) as child:
        assert server.asked.wait(HANGS_S)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=HANGS_S)

    assert child.returncode == 130
    assert "interrupted" in told
    assert list(tmp_path.iterdir()) == []
