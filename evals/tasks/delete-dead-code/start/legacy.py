"""How names were written before release 2."""


def shout(name: str) -> str:
    return name.upper()
