"""Bytes and seconds as people write them."""

from __future__ import annotations

import pytest

from wrapper_ir.cli.terminal import duration, human, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        ("1K", 1024),
        ("1.5k", 1536),
        ("2 MiB", 2 << 20),
        ("3GB", 3 << 30),
        ("12B", 12),
        ("", None),
        ("-1", None),
        ("1X", None),
        ("lots", None),
    ],
)
def test_parse_size(text: str, size: int | None) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (5 << 30, "5.0 GiB"),
        (3 << 50, "3,072.0 TiB"),
    ],
)
def test_human(size: int, text: str) -> None:
    assert human(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.56e-6, "4.56 us"), (0.0, "0 us"), (123.4, "123 s")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
