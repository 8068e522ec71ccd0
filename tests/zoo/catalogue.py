"""Every architecture of the zoo, in the order in which they are tried."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tests.zoo.decoding import DECODING
from tests.zoo.language import LANGUAGE
from tests.zoo.mixed import MIXED
from tests.zoo.plain import PLAIN
from tests.zoo.sound import SERIES, SOUND
from tests.zoo.vision import VISION

if TYPE_CHECKING:
    from tests.zoo.toys import Architecture

__all__ = ["ARCHITECTURES", "chosen"]

_ALL = (*LANGUAGE, *VISION, *SOUND, *MIXED, *SERIES, *DECODING, *PLAIN)

ARCHITECTURES: dict[str, Architecture] = {architecture.name: architecture for architecture in _ALL}


def chosen(patterns: str) -> list[Architecture]:
    """Return the architectures whose name or kind matches one of patterns set apart by commas."""
    globs = [pattern.strip().lower() for pattern in patterns.split(",")]

    def matches(architecture: Architecture) -> bool:
        names = (architecture.name, architecture.kind)
        return any(fnmatchcase(name, glob) for name in names for glob in globs)

    return [architecture for architecture in ARCHITECTURES.values() if matches(architecture)]
