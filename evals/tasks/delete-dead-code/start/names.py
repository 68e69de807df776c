"""Names. What `legacy` did is done by `polite` now."""

import plugins.emphasis as emphasis


def polite(name: str) -> str:
    return emphasis.strong(f"Dear {name}")
