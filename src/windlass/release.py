"""Which release of windlass this is: the one place that says so."""

RELEASE = "0.1.0"
