"""Tools that Anthropic runs by itself: how they are asked for, and their blocks in a history.

Law 1. The API takes a call of such a tool back only with its result, or while its result is still to come: if behind
    it stand nothing but results of other calls. Whatever else remains of the history, a request keeps to that.
Law 2. A citation goes back only where what it refers to goes back too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from windlass.errors import InvalidInput
from windlass.kernel.model_call import ModelRequest
from windlass.models.capabilities import ServerTools, stated

_Block = dict[str, Any]
Said = tuple[str, list[_Block]]
"""The role of a message, and its blocks."""

SEARCH = "web_search_20250305"
"""The one version that every model and host with a web search has. Later ones have the model write code that
searches: ask for them as a `ServerTool`."""

_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
_RESULT = "_tool_result"
# What code left behind; it stands by itself.
_UPLOAD = "container_upload"
# Tools that are still in trial, and the header that admits them.
_BETAS = {"advisor_20260301": "advisor-tool-2026-03-01"}
# Tools whose blocks the API refuses in a history where the tool is not offered any more.
_OFFERED_ONLY = frozenset({"advisor"})


def is_call(block: Mapping[str, Any]) -> bool:
    """Whether a block calls a tool of the provider."""
    return block.get("type") in _CALLS


def is_result(block: Mapping[str, Any]) -> bool:
    """Whether a block is what came of a tool of the provider: a `tool_result` alone is the caller's."""
    kind = block.get("type")
    return isinstance(kind, str) and kind.endswith(_RESULT)


def runs_at_the_provider(block: Mapping[str, Any]) -> bool:
    """Whether a block is of a tool that the provider ran."""
    return is_call(block) or is_result(block) or block.get("type") == _UPLOAD


# --- asking ---------------------------------------------------------------------------------------


def offers_of(asked: ServerTools, request: ModelRequest) -> list[_Block]:
    """Return the tools that the provider is to run, as its API has them.

    Raises:
        InvalidInput: another tool of the request has the name of one of them.
    """
    offers = [dict(spec) for spec in asked.specs]
    if asked.search is not None:
        search = asked.search
        limits = {
            "max_uses": search.max_uses,
            "allowed_domains": list(search.allowed_domains) or None,
            "blocked_domains": list(search.blocked_domains) or None,
        }
        offers.append({"type": SEARCH, "name": "web_search", **stated(limits)})
    names = {tool.name for tool in request.tools}
    for offer in offers:
        if offer.get("name") in names:
            wanted = "another name: Anthropic's own tool is called that"
            raise InvalidInput.at("tools", f"a tool named {offer['name']}", wanted)
    return offers


def headers_for(offers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the headers that the tools need; none for those that are not in trial."""
    betas = {_BETAS[kind] for offer in offers if (kind := offer.get("type")) in _BETAS}
    return {"anthropic-beta": ",".join(sorted(betas))} if betas else {}


# --- a history ------------------------------------------------------------------------------------


def settle(talk: list[Said], offers: Iterable[Mapping[str, Any]]) -> None:
    """Leave out, in place, what the API would refuse (see the laws above)."""
    if not any(
        _is_special(block) for role, blocks in talk if role == "assistant" for block in blocks
    ):
        return
    withdrawn = _OFFERED_ONLY - {str(offer.get("name")) for offer in offers}
    found = _Found(talk, withdrawn)
    for at, (role, blocks) in enumerate(talk):
        if role == "assistant":
            blocks[:] = [block for block in blocks if found.takes(block, at)]
        else:
            found.count_documents(blocks)


def _is_special(block: _Block) -> bool:
    return "citations" in block or runs_at_the_provider(block)


class _Found:
    """What stands in a request so far, as it is gone through."""

    def __init__(self, talk: list[Said], withdrawn: frozenset[str]) -> None:
        self._withdrawn = withdrawn
        self._called: set[str] = set()
        self._addresses: set[str] = set()
        self._n_documents = 0
        blocks = [block for _, blocks in talk for block in blocks]
        self._answered = {block["tool_use_id"] for block in blocks if is_result(block)}
        self._open_from = _open_from(talk)

    def takes(self, block: _Block, at: int) -> bool:
        """Whether a block of the message at a place may be sent; one with citations may lose them."""
        if is_call(block):
            call_id = block["id"]
            is_paired = call_id in self._answered or at >= self._open_from
            if not is_paired or block.get("name") in self._withdrawn:
                return False
            self._called.add(call_id)
        elif is_result(block):
            if block["tool_use_id"] not in self._called:
                return False
            self._note(block.get("content"))
        elif "citations" in block and not all(map(self._knows, block["citations"])):
            del block["citations"]
        return True

    def count_documents(self, blocks: list[_Block]) -> None:
        """Count the documents that the user gave, by themselves and in results."""
        for block in blocks:
            inner = block.get("content") if block["type"] == "tool_result" else None
            given = [block, *inner] if isinstance(inner, list) else [block]
            self._n_documents += sum(1 for each in given if each["type"] == "document")

    def _note(self, content: object) -> None:
        """Note what a result brought: the addresses of found pages, a document."""
        if isinstance(content, list):
            found = [each.get("url") for each in content if isinstance(each, dict)]
            self._addresses.update(each for each in found if isinstance(each, str))
        elif isinstance(content, dict) and isinstance(content.get("content"), dict):
            self._n_documents += content["content"].get("type") == "document"

    def _knows(self, citation: object) -> bool:
        """Whether what a citation refers to is in the request."""
        if not isinstance(citation, dict):
            return False
        if citation.get("type") == "web_search_result_location":
            return citation.get("url") in self._addresses
        number = citation.get("document_index")
        return type(number) is int and number < self._n_documents


def _open_from(talk: list[Said]) -> int:
    """Return the place from which on calls may wait for their result: behind it stand results of calls alone."""
    place = len(talk)
    for at in range(len(talk) - 1, -1, -1):
        role, blocks = talk[at]
        if role == "assistant":
            return min(place, at)
        if any(block["type"] != "tool_result" for block in blocks):
            return place
        place = at
    return place
