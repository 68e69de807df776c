"""Keys in the environment reach neither the terminal, nor the store, nor an error, also when somebody echoes them."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.started import Chat, clean_environment, windlass
from tests.models.echo_adapters import ECHOES, Echo
from windlass.cli.keys import clean

CANARY = "sk-canary-Zx81Qw77Lm20"
KEYS = {
    name: f"{CANARY}-{number}"
    for number, name in enumerate(
        (
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "OPENROUTER_API_KEY",
            "MY_SERVICE_TOKEN",
        )
    )
}
ECHO = """
import os
from windlass import Agent
from windlass.errors import Rejected

class Echo:
    name = "echo"
    async def complete(self, request, emit):
        raise Rejected(f"401 from the provider: bad key {os.environ['OPENAI_API_KEY']}")

agent = Agent("echo", model=Echo())

def broken():
    raise RuntimeError(f"no luck with {os.environ['MY_SERVICE_TOKEN']}")
"""


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    "words",
    [
        ["run", "hello", "--model", "demo", "--session", "s"],
        ["doctor", "--json"],
        ["models"],
        ["run", "hello", "-m", "echo:broken"],
        ["run", "hello", "--model", "anthropic:"],
        ["sessions", "--store", "none.db"],
    ],
)
@pytest.mark.parametrize("debug", ["", "1"])
def test_no_command_shows_or_keeps_a_key(words: list[str], debug: str, tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(ECHO, encoding="utf-8")
    env = clean_environment(**KEYS, WINDLASS_DEBUG=debug)

    done = windlass(*words, cwd=tmp_path, env=env)

    assert done.returncode in (0, 2)
    assert "canary" not in done.stdout + done.stderr
    assert b"canary" not in everything_in(tmp_path)


@pytest.mark.parametrize("words", ["run {} --json", "run {} --json --events", "run {}"])
def test_a_key_that_a_model_repeats_is_not_shown_in_any_form(words: str, tmp_path: Path) -> None:
    env = clean_environment(**KEYS, WINDLASS_MODEL="demo")

    done = windlass(*words.format(KEYS["MY_SERVICE_TOKEN"]).split(), cwd=tmp_path, env=env)

    assert done.returncode == 0
    assert "canary" not in done.stdout + done.stderr
    assert "[MY_SERVICE_TOKEN]" in done.stdout
    shown = windlass("sessions", "--json", cwd=tmp_path, env=env).stdout
    session = json.loads(shown)["session"]
    for command in (["show", session], ["export", session], ["show", session, "--journal"]):
        assert "canary" not in windlass(*command, "--json", cwd=tmp_path, env=env).stdout


def test_a_key_that_an_error_echoes_is_not_shown_in_the_conversation(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(ECHO, encoding="utf-8")
    chat = Chat(tmp_path, "-m", "echo:agent", "--session", "s", **KEYS)
    try:
        chat.say("hello")
        chat.until("stopped: provider_error")
        chat.until_asked()
        chat.press_ctrl_d()
        chat.end()
    finally:
        chat.close()

    assert "bad key [OPENAI_API_KEY]" in chat.screen
    assert "canary" not in chat.raw


class Echoing(BaseHTTPRequestHandler):
    """A provider that answers with the key that it was sent, as some do."""

    def do_POST(self) -> None:
        places = ("authorization", "x-api-key", "x-goog-api-key")
        sent = next((self.headers[name] for name in places if name in self.headers), "")
        error = {"message": f"Incorrect API key provided: {sent}", "code": "invalid_api_key"}
        body = json.dumps({"error": error}).encode()
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.seen.append(sent)  # type: ignore[attr-defined]  # put there below

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    "model",
    [
        "openai:gpt-5",
        "openai-chat:gpt-5",
        "anthropic:claude-sonnet-4-5",
        "google:gemini-2.5-flash",
    ],
)
@pytest.mark.parametrize("debug", ["", "1"])
def test_a_key_that_a_provider_echoes_is_shown_and_kept_nowhere(
    model: str, debug: str, tmp_path: Path
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echoing) as server:
        server.seen = []  # type: ignore[attr-defined]  # what it was sent
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}"
        env = clean_environment(
            **KEYS,
            OPENAI_BASE_URL=f"{place}/v1",
            ANTHROPIC_BASE_URL=place,
            GOOGLE_GEMINI_BASE_URL=place,
            WINDLASS_DEBUG=debug,
        )
        done = windlass(
            "run", "hi", "--model", model, "--session", "s", "--json", cwd=tmp_path, env=env
        )
        shown = windlass("show", "s", "--journal", "--json", cwd=tmp_path, env=env)
        server.shutdown()

    assert done.returncode == 1
    assert all("canary" in sent for sent in server.seen)  # type: ignore[attr-defined]  # see above
    assert server.seen  # type: ignore[attr-defined]  # the red proof: it was sent, so it was echoed
    assert "401" in done.stdout
    assert "canary" not in done.stdout + done.stderr + shown.stdout + shown.stderr
    assert b"canary" not in everything_in(tmp_path)


class Answering(BaseHTTPRequestHandler):
    """A provider that says the key that it was sent: in the arguments of a call, then in its words."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        places = ("authorization", "x-api-key", "x-goog-api-key")
        sent = next(self.headers[name] for name in places if name in self.headers)
        key = sent.removeprefix("Bearer ")
        echo: Echo = self.server.echo  # type: ignore[attr-defined]  # put there below
        seen: list[str] = self.server.seen  # type: ignore[attr-defined]  # the same
        seen.append(key)
        if len(seen) == 1:
            body = echo.arguments('{"said": "', key[:5], key[5:], '"}')
        else:
            body = echo.text("It is ", key[:7], key[7:], ".")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.send_header("x-sent", key)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("provider", "form"), [*((name, ["--json"]) for name in ECHOES), ("anthropic", [])]
)
def test_a_key_that_a_model_says_is_shown_and_kept_nowhere(
    provider: str, form: list[str], tmp_path: Path
) -> None:
    echo = ECHOES[provider]
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        server.echo, server.seen = echo, []  # type: ignore[attr-defined]  # what it says, what it was sent
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}{echo.path}"
        env = clean_environment(**KEYS, **{echo.variable: place}, WINDLASS_DEBUG="1")
        words = ["run", "hi", "--model", echo.name, "--session", "s", *form]
        done = windlass(*words, cwd=tmp_path, env=env)
        shown = windlass("show", "s", "--journal", *form, cwd=tmp_path, env=env)
        exported = windlass("export", "s", cwd=tmp_path, env=env)
        server.shutdown()

    assert done.returncode == 0, done.stderr
    assert all("canary" in key for key in server.seen)  # type: ignore[attr-defined]  # see above
    assert len(server.seen) == 2  # type: ignore[attr-defined]  # the red proof: it was sent, so it was said
    assert "_API_KEY]." in done.stdout
    told = [each.stdout + each.stderr for each in (done, shown, exported)]
    assert "canary" not in "".join(told)
    assert b"_API_KEY]." in everything_in(tmp_path)
    assert b"canary" not in everything_in(tmp_path)


def test_text_is_cleaned_in_every_form_a_key_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", CANARY)
    monkeypatch.setenv("DB_PASSWORD", "password")  # too short to be told from words
    coded = base64.b64encode(CANARY.encode()).decode()

    assert clean(f"a {CANARY} b") == "a [ACME_API_KEY] b"
    assert CANARY not in clean(f"Basic {coded}")
    assert coded[:20] not in clean(f"Basic {coded}")
    assert clean("my password") == "my password"
