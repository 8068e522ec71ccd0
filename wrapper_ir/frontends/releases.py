"""The releases of torch that the Inductor front end supports. Works without torch installed.

Only the major and minor numbers of a version count. A pre-release (``2.15.0a0``,
``2.16.0.dev20270101``) may differ from its release, so it is always untried.
"""

from __future__ import annotations

import enum
import os
import re

#: Lower bound (inclusive) and upper bound (exclusive), as in pyproject.toml.
SUPPORTED = ((2, 11), (2, 16))

#: The environment variable that allows an untried release.
TRY = "WRAPPER_IR_TRY_TORCH"

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*(?P<pre>\.?(?:a|b|rc|dev)\d*)?")


class Standing(enum.Enum):
    """Support status of a version."""

    SUPPORTED = "supported"
    UNTRIED = "untried"  #: newer than the supported releases, or a pre-release
    TOO_OLD = "too old"


class UntriedTorchWarning(UserWarning):
    """The Inductor front end runs with an untried release of torch, as requested."""


def standing(version: str) -> Standing:
    """Return the support status of a version such as ``2.15.0+cu130``."""
    match = _VERSION.match(version)
    if match is None:
        return Standing.UNTRIED
    release = (int(match[1]), int(match[2]))
    if release < SUPPORTED[0]:
        return Standing.TOO_OLD
    is_tried = release < SUPPORTED[1] and not match["pre"]
    return Standing.SUPPORTED if is_tried else Standing.UNTRIED


def is_to_be_tried() -> bool:
    """Return True if the environment allows an untried release."""
    return os.environ.get(TRY, "") not in ("", "0")


def in_words() -> str:
    """Return the range of supported releases as text, such as ``2.11 to 2.15``."""
    (first_major, first_minor), (end_major, end_minor) = SUPPORTED
    return f"{first_major}.{first_minor} to {end_major}.{end_minor - 1}"
