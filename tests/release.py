"""Which release of torch the tests run on; those that depend on it ask here."""

from __future__ import annotations

import torch

#: Major and minor number, as (2, 15).
TORCH = tuple(map(int, torch.__version__.split(".")[:2]))
