"""What ranks of a distributed program have in common."""

from __future__ import annotations

from torch.compiler import config


def compiles_on_one_rank() -> bool:
    """Return whether graphs shall not hold what differs from rank to rank; 2.15 brought it."""
    return bool(getattr(config, "compile_on_one_rank", False))
