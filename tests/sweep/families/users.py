"""Kernels that users write, where Triton is."""

from __future__ import annotations

import importlib.util

from tests.sweep.kit import How, Kit, Made, family
from tests.sweep.sizes import among, rest

if importlib.util.find_spec("triton"):
    from tests.gpu.user_kernels import USERS

    def _add(name: str) -> None:
        def make(k: Kit, columns: int, block: int, blocks: int) -> Made:
            rows = block * blocks
            return Made(USERS[name], lambda: (k.c(rows, columns), k.c(rows, columns)))

        make.__name__ = name
        how = How(trains=False, dtypes=("float32",), devices=("cuda",))
        family(how, columns=among(16, 64, 768, 4096), block=among(16), blocks=rest(1))(make)

    for each in USERS:
        _add(each)
