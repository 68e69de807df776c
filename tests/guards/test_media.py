"""Files at the door: empty ones, types that are none, names that are paths, images that are something else."""

from __future__ import annotations

import pytest

from windlass.errors import InvalidInput
from windlass.guards.media import check_file, check_file_name, check_media_type

PNG = b"\x89PNG\r\n\x1a\n..."
JPEG = b"\xff\xd8\xff\xe0..."
WEBP = b"RIFF\x00\x01\x02\x03WEBP..."


@pytest.mark.parametrize(
    "media_type",
    [
        "image/png",
        "text/plain; charset=utf-8",
        'text/plain;charset="utf-8"; format=flowed',
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "image/svg+xml",
        "a" * 127 + "/" + "b" * 127,
    ],
)
def test_a_media_type_passes(media_type: str) -> None:
    assert check_media_type(media_type, field="f") == media_type


@pytest.mark.parametrize(
    "media_type",
    [
        "",
        "png",
        "/png",
        "image/",
        "image/png\r\nX: y",
        "text/html\n",
        "text/html\x1b[2J",
        "image /png",
        "image/p ng",
        "x" * 5_000,
        "a" * 128 + "/b",
        "text/plain; charset",
        "text/plain;" + " a=b;" * 9,
        "image/\u202egnp",
        "image/png/x",
    ],
)
def test_what_is_not_a_media_type_is_refused_without_being_shown(media_type: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_media_type(media_type, field="f")

    assert refused.value.field == "f"
    assert "wanted a media type such as image/png" in str(refused.value)
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize("name", [None, "cat.png", "Übersicht 2026 (1).pdf", "x" * 255, "..a", "-"])
def test_a_name_passes(name: str | None) -> None:
    assert check_file_name(name, field="f") == name


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("", "0 characters"),
        ("x" * 256, "256 characters"),
        ("x" * 5_000, "5,000 characters"),
        ("../../etc/passwd", "U+002F at character 2"),
        ("a\\b", "U+005C at character 1"),
        ("a\r\nX: y", "U+000D at character 1"),
        ("a\x1b[2J", "U+001B at character 1"),
        ("a\x9b", "U+009B at character 1"),
        ("gnp.\u202ea", "U+202E at character 4"),
        (".", "the name of a folder"),
        ("..", "the name of a folder"),
    ],
)
def test_a_name_that_is_a_path_or_does_not_show_is_refused(name: str, found: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_file_name(name, field="f")

    wanted = "the name of a file, of 1 to 255 characters, without its folder"
    assert str(refused.value) == f"f: found {found}, wanted {wanted}"


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (PNG, "IMAGE/PNG; a=b"),
        (JPEG, "image/jpeg"),
        (JPEG, "image/jpg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (WEBP, "image/webp"),
        (b"\n" * 1_019 + b"%PDF-1.7", "application/pdf"),
        (b"anything", "image/tiff"),
        (b"anything", "application/octet-stream"),
    ],
)
def test_bytes_of_their_type_pass(data: bytes, media_type: str) -> None:
    check_file(data, media_type, field="f")


@pytest.mark.parametrize(
    ("data", "media_type", "told"),
    [
        (b"", "image/png", "f: found no bytes, wanted a file that is not empty"),
        (b"", "text/plain", "f: found no bytes, wanted a file that is not empty"),
        (
            JPEG,
            "image/png",
            "f: found the bytes of image/jpeg, wanted image/png; give media_type='image/jpeg'",
        ),
        (
            b"<html>",
            "image/webp",
            "f: found bytes that do not begin like it, wanted image/webp; give the media type that the bytes have",
        ),
        (
            b"RIFF....AVI ",
            "image/webp",
            "f: found bytes that do not begin like it, wanted image/webp; give the media type that the bytes have",
        ),
        (
            b"\n" * 1_020 + b"%PDF-1.7",
            "application/pdf",
            "f: found bytes that do not begin like it, wanted application/pdf; give the media type that the bytes have",
        ),
    ],
)
def test_bytes_that_no_provider_takes_are_refused(data: bytes, media_type: str, told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_file(data, media_type, field="f")

    assert str(refused.value) == told
