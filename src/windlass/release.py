"""Which release of windlass this is, and how it is installed: the one place that says so."""

RELEASE = "0.1.0"
DISTRIBUTION = "windlass-runtime"
"""What package registries call it. The import name and the command are `windlass`."""


def install_hint(extra: str) -> str:
    """Return how to install an extra, such as `cli`.

    The hint names no registry: until a release is published, a package found there is not this one.
    """
    not_yet = f"{DISTRIBUTION} is not published yet"
    return f"pip install '.[{extra}]' in a checkout of windlass ({not_yet})"
