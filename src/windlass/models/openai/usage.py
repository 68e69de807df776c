"""What OpenAI's two protocols say of the tokens used, as windlass counts them."""

from __future__ import annotations

from typing import Any

from windlass.errors import Malformed
from windlass.kernel.model_call import NO_USAGE, Usage
from windlass.kernel.value import Json
from windlass.models.provider_errors import malformed

_MAX_COUNT = 2**63 - 1


class UsageReport:
    """The counts of one reply. None stands for a provider that said nothing, which is not zero."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self.said: dict[str, Any] | None = None
        self.served_model: str | None = None

    def take(self, said: object) -> None:
        """Keep what was said last.

        Raises:
            Malformed: it is not an object.
        """
        if said is None:
            return
        if not isinstance(said, dict):
            raise malformed(self._provider, f"usage: found {type(said).__name__}, wanted an object")
        self.said = said

    def provider_usage(self, asked: str) -> Json:
        """Return what the provider said, and the model that it served where that is another."""
        if self.served_model is None or self.served_model == asked:
            return self.said
        return {**(self.said or {}), "served_model": self.served_model}

    def usage(self) -> Usage:
        """Return the counts in windlass's buckets.

        Raises:
            Malformed: a count is no number of tokens.
        """
        if self.said is None:
            return NO_USAGE
        said = self.said
        is_chat = "prompt_tokens" in said
        sent, written = ("prompt", "completion") if is_chat else ("input", "output")
        of_sent = said.get(f"{sent}_tokens_details")
        of_written = said.get(f"{written}_tokens_details")
        n_sent = self._count(said, f"{sent}_tokens")
        n_written = self._count(said, f"{written}_tokens")
        n_cached = self._count(of_sent, "cached_tokens")
        n_kept = self._count(of_sent, "cache_write_tokens")
        n_thought = self._count(of_written, "reasoning_tokens")
        return Usage(
            # Some gateways count what was cached beside what was sent, not within it.
            input_tokens=max(0, n_sent - n_cached - n_kept),
            cached_input_tokens=n_cached,
            cache_write_tokens=n_kept,
            output_tokens=n_written,
            reasoning_tokens=min(n_thought, n_written),
        )

    def _count(self, counts: object, name: str) -> int:
        found = counts.get(name) if isinstance(counts, dict) else None
        if found is None:
            return 0
        if type(found) is not int or not 0 <= found <= _MAX_COUNT:
            raise _no_count(self._provider, name)
        return found


def _no_count(provider: str, name: str) -> Malformed:
    return malformed(provider, f"usage.{name}: found what is no count, wanted 0 to 2^63 - 1")
