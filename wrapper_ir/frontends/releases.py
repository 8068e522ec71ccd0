"""Releases of torch that the Inductor front end supports; read also where torch is absent.

A version counts by its major and minor number. A pre-release (``2.15.0a0``, ``2.16.0.dev20270101``)
may lack what its release has, or have more: nobody has tried it, whatever its number.
"""

from __future__ import annotations

import enum
import os
import re

#: From the first, below the second. What pip is told in pyproject.toml is the same.
SUPPORTED = ((2, 11), (2, 16))

#: The environment variable by which one goes on with a release that nobody has tried.
TRY = "WRAPPER_IR_TRY_TORCH"

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*(?P<pre>\.?(?:a|b|rc|dev)\d*)?")


class Standing(enum.Enum):
    """Support status of a version."""

    SUPPORTED = "supported"
    UNTRIED = "untried"  #: newer than what we support, or a pre-release
    TOO_OLD = "too old"


class UntriedTorchWarning(UserWarning):
    """The Inductor front end goes on with a torch that nobody has tried it with, as was asked."""


def standing(version: str) -> Standing:
    """Return what we know of a version such as ``2.15.0+cu130``."""
    match = _VERSION.match(version)
    if match is None:
        return Standing.UNTRIED
    release = (int(match[1]), int(match[2]))
    if release < SUPPORTED[0]:
        return Standing.TOO_OLD
    is_tried = release < SUPPORTED[1] and not match["pre"]
    return Standing.SUPPORTED if is_tried else Standing.UNTRIED


def is_to_be_tried() -> bool:
    """Return whether the environment asks to go on with a release that nobody has tried."""
    return os.environ.get(TRY, "") not in ("", "0")


def in_words() -> str:
    """Return which releases are supported, as ``2.11 to 2.15``."""
    (first_major, first_minor), (end_major, end_minor) = SUPPORTED
    return f"{first_major}.{first_minor} to {end_major}.{end_minor - 1}"
