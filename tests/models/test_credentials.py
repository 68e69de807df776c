"""Keys come from the argument or the environment, and go to their own host."""

from __future__ import annotations

import base64

import pytest

from windlass.errors import ConfigError
from windlass.guards.secret import Secret
from windlass.models.credentials import KEY_SOURCES, base_url_for, cleaned, key_for

ENV = {"ANTHROPIC_API_KEY": "canary-anthropic-1", "OPENAI_API_KEY": "canary-openai-1"}


def test_a_key_comes_from_the_providers_variable() -> None:
    key = key_for("anthropic", None, ENV)
    assert (key.reveal(), key.name) == ("canary-anthropic-1", "ANTHROPIC_API_KEY")
    assert "canary" not in repr(key)


def test_a_given_key_goes_anywhere_and_wins() -> None:
    assert (
        key_for("anthropic", "https://proxy.example", ENV, "given-key-1").reveal() == "given-key-1"
    )
    secret = Secret("given-key-2", name="VAULT")
    assert key_for("openai", None, ENV, secret) is secret


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("openai-chat", "OPENAI_API_KEY"),
        ("google", "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
        ("deepseek", "DEEPSEEK_API_KEY"),
        ("fireworks", "FIREWORKS_API_KEY"),
        ("groq", "GROQ_API_KEY"),
        ("mistral", "MISTRAL_API_KEY"),
        ("together", "TOGETHER_API_KEY"),
        ("xai", "XAI_API_KEY"),
    ],
)
def test_a_missing_key_is_refused_naming_the_variable(provider: str, variable: str) -> None:
    with pytest.raises(ConfigError, match=f"set the environment variable {variable}$"):
        key_for(provider, None, {})


def test_a_key_of_the_environment_is_not_sent_to_another_host() -> None:
    with pytest.raises(ConfigError) as raised:
        key_for("openai", "https://evil.example/v1", ENV)
    assert str(raised.value) == (
        "api_key: OPENAI_API_KEY is for https://api.openai.com and is not sent to another address; "
        "give the key of https://evil.example as api_key"
    )


def test_a_host_that_merely_looks_alike_is_another() -> None:
    for url in ("https://api.openai.com.evil.example", "https://evil.example/api.openai.com"):
        with pytest.raises(ConfigError, match="another address"):
            key_for("openai", url, ENV)


def test_an_address_beside_the_key_in_the_environment_may_have_it() -> None:
    env = {**ENV, "OPENAI_BASE_URL": "https://gateway.example/v1"}
    assert base_url_for("openai", None, env) == "https://gateway.example/v1"
    assert key_for("openai", None, env).reveal() == "canary-openai-1"
    with pytest.raises(ConfigError, match="another address"):
        key_for("openai", "https://evil.example", env)


AZURE = {"AZURE_OPENAI_API_KEY": "canary-azure-11"}


@pytest.mark.parametrize(
    ("named", "address"),
    [
        (
            {"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com"},
            "https://me.openai.azure.com/openai/v1",
        ),
        (
            {"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com/"},
            "https://me.openai.azure.com/openai/v1",
        ),
        (
            {"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com/openai/v1/"},
            "https://me.openai.azure.com/openai/v1",
        ),
        (
            {
                "AZURE_OPENAI_BASE_URL": "https://gate.example/x",
                "AZURE_OPENAI_ENDPOINT": "https://y",
            },
            "https://gate.example/x",
        ),
    ],
)
def test_a_provider_with_a_host_for_each_customer_is_found_by_its_variable(
    named: dict[str, str], address: str
) -> None:
    env = {**AZURE, **named}
    for provider in ("azure", "azure-responses"):
        assert base_url_for(provider, None, env) == address
        assert key_for(provider, None, env).reveal() == "canary-azure-11"
        with pytest.raises(
            ConfigError, match=r"AZURE_OPENAI_API_KEY is for https://.* is not sent"
        ):
            key_for(provider, "https://evil.example/openai/v1", env)


def test_a_provider_without_a_home_names_the_variables_of_its_address() -> None:
    wanted = (
        "base_url: found none, wanted the address of the azure server, "
        "or the environment variable AZURE_OPENAI_ENDPOINT or AZURE_OPENAI_BASE_URL"
    )
    with pytest.raises(ConfigError) as raised:
        base_url_for("azure", None, AZURE)
    assert str(raised.value) == wanted
    with pytest.raises(ConfigError, match="is for the address that the environment names"):
        key_for("azure", "https://evil.example", AZURE)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_a_server_on_this_machine_needs_no_key_and_gets_none(host: str) -> None:
    assert key_for("anthropic", f"http://{host}:8080", ENV).reveal() == "no-key-needed"


@pytest.mark.parametrize("address", ["http://api.anthropic.com", "https://api.anthropic.com:444"])
def test_a_key_of_the_environment_is_sent_over_tls_to_the_usual_port(address: str) -> None:
    """Else whoever can set an address could read the key on its way."""
    with pytest.raises(ConfigError, match=r"ANTHROPIC_API_KEY is for https:.* and is not sent"):
        key_for("anthropic", address, {"ANTHROPIC_API_KEY": "sk-ant-0123456789"})


def test_a_line_break_behind_a_key_is_no_part_of_it() -> None:
    assert (
        key_for("anthropic", None, {"ANTHROPIC_API_KEY": "sk-ant-0123\n"}).reveal() == "sk-ant-0123"
    )
    assert key_for("anthropic", given=" sk-ant-0123 ").reveal() == "sk-ant-0123"


@pytest.mark.parametrize(
    "key", ["sk-ant\nX-Evil: 1", "sk ant 0123", "sk-ant-é123", "sk-ant\x00123"]
)
def test_what_no_header_can_carry_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigError, match="wanted printable ASCII without spaces") as caught:
        key_for("anthropic", None, {"ANTHROPIC_API_KEY": key})
    assert "sk" not in str(caught.value)


def test_an_empty_address_in_code_is_not_the_providers_own() -> None:
    with pytest.raises(ConfigError, match="base_url: found no address"):
        base_url_for("anthropic", "", {})
    assert (
        base_url_for("anthropic", None, {"ANTHROPIC_BASE_URL": ""}) == "https://api.anthropic.com"
    )


def test_servers_that_ask_for_no_key_need_none() -> None:
    assert key_for("ollama", "http://gpu.example/v1", {}).reveal() == "no-key-needed"
    assert key_for("vllm", None, {"VLLM_API_KEY": "vllm-key-1"}).reveal() == "vllm-key-1"


def test_an_address_is_as_given_or_at_home() -> None:
    assert base_url_for("anthropic", None, {}) == "https://api.anthropic.com"
    assert (
        base_url_for("anthropic", "http://x:1/", {"ANTHROPIC_BASE_URL": "http://y"}) == "http://x:1"
    )


def test_every_key_that_was_handed_out_is_taken_out_of_foreign_text() -> None:
    key_for("google", None, {"GOOGLE_API_KEY": "canary-google-77"})
    key_for("openai", "https://x.example", {}, "canary-given-77")
    hidden = base64.b64encode(b"canary-given-77").decode()
    told = f"bad key canary-google-77, or canary-given-77, or {hidden}"
    shown = cleaned(told)
    assert "canary" not in shown
    assert hidden[:18] not in shown
    assert shown.startswith("bad key [GOOGLE_API_KEY], or [api_key], or ")


def test_providers_on_the_network_are_asked_over_https_unless_they_are_here() -> None:
    for source in KEY_SOURCES.values():
        is_here = source.base_url.startswith("http://localhost")
        assert is_here or source.base_url.startswith("https://") or source.host_variable
