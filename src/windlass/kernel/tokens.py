"""Tokens: about how many a text, a message, a request will take. Counting them exactly is the provider's business.

Law. Every character has its weight, so an estimate grows with the text, and that of two texts together is the sum of
    both but for the rounding.

Latin words come out at four characters a token, digits at three, signs and other alphabets at two, and a character of
Chinese, Japanese, Korean or an emoji at one token. Text without words in it, such as base64, takes more than that.
"""

from __future__ import annotations

from collections.abc import Iterable
from string import ascii_letters, digits
from typing import Final

from windlass.kernel import canonical
from windlass.kernel.chain import Chain
from windlass.kernel.history_view import MessageReplaced
from windlass.kernel.messages import (
    Attachment,
    Code,
    CodeOutput,
    ErrorText,
    Message,
    Part,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
)
from windlass.kernel.model_call import ModelMessage, ModelRequest
from windlass.kernel.tool_call import ToolSpec

# The estimate for a picture, a page or a piece of sound, whose content is not read.
MEDIA_TOKENS: Final = 1_600
# What stands around a message, a call, a result or a tool.
FRAME_TOKENS: Final = 8
_MEDIA: Final = ("image/", "audio/", "video/", "application/pdf")

# Weights, in twelfths of a token.
_TOKEN: Final = 12
_IN_WORDS: Final = 3
_DIGIT: Final = 4
_SIGN: Final = 6
_WORDS: Final = (ascii_letters + " \n\t\r").encode()
_DIGITS: Final = digits.encode()
# How a character begins that has three bytes or more in UTF-8: mostly one that is a word or a syllable.
_LONG: Final = bytes(range(0xE0, 0x100))


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text takes."""
    return -(-_weight(text) // _TOKEN)


def _weight(text: str) -> int:
    data = text.encode(errors="surrogatepass")
    n_words, n_digits = _count(data, _WORDS), _count(data, _DIGITS)
    if len(data) == len(text):
        return n_words * _IN_WORDS + n_digits * _DIGIT + (len(text) - n_words - n_digits) * _SIGN
    n_wide = _count(data, _LONG)
    n_signs = len(text) - n_words - n_digits - n_wide
    return n_words * _IN_WORDS + n_digits * _DIGIT + n_signs * _SIGN + n_wide * _TOKEN


def _count(data: bytes, wanted: bytes) -> int:
    """Return how many bytes are among those wanted; in C, for texts of megabytes."""
    return len(data) - len(data.translate(None, wanted))


def tokens_of(message: Message | ModelMessage | MessageReplaced) -> int:
    """Return about how many tokens a message takes."""
    return FRAME_TOKENS + sum([tokens_of_part(part) for part in message.parts])


def tokens_of_part(part: Part) -> int:
    """Return about how many tokens a part of a message takes."""
    if isinstance(part, ToolResult):
        inside = sum([tokens_of_part(each) for each in part.content])
        return FRAME_TOKENS + estimate_tokens(part.name) + inside
    if isinstance(part, ToolCall):
        args = canonical.encode(part.args).decode()
        return FRAME_TOKENS + estimate_tokens(part.name + args)
    if isinstance(part, Attachment):
        is_seen = part.media_type.startswith(_MEDIA)
        return MEDIA_TOKENS if is_seen else FRAME_TOKENS + estimate_tokens(part.name or part.ref)
    if isinstance(part, Reasoning):
        # Without its provider's blob it is not sent again.
        return 0 if part.replay is None else FRAME_TOKENS + estimate_tokens(part.text)
    if isinstance(part, ServerToolCall):
        # What was found is sent again with it, and counts as a prompt.
        found = "" if part.replay is None else canonical.encode(part.replay).decode()
        return FRAME_TOKENS + estimate_tokens(found)
    return _tokens_of_words(part)


def _tokens_of_words(part: Text | Code | CodeOutput | ErrorText) -> int:
    if isinstance(part, Code):
        return FRAME_TOKENS + estimate_tokens(part.source)
    if isinstance(part, CodeOutput):
        return FRAME_TOKENS + estimate_tokens(part.text + (part.error or ""))
    return estimate_tokens(part.text)


def tokens_of_tools(tools: Iterable[ToolSpec]) -> int:
    """Return about how many tokens the tools on offer take."""
    return sum(
        [
            FRAME_TOKENS
            + estimate_tokens(tool.name + tool.description)
            + estimate_tokens(canonical.encode(tool.parameters).decode())
            for tool in tools
        ]
    )


def tokens_of_request(request: ModelRequest) -> int:
    """Return about how many tokens a request takes. What it repeats of the last one is not counted again."""
    messages: Chain[ModelMessage] = Chain.of(request.messages)
    counted = messages.memo(tokens_of_request, lambda: [0])
    for message in messages.since(len(counted) - 1):
        counted.append(counted[-1] + tokens_of(message))
    return counted[messages.length] + tokens_of_tools(request.tools)
