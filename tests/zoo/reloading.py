"""The process in which an exported model is run: it loads a folder, and leaves the results there.

It imports torch alone, as a program does that is given a library and nothing else.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._inductor import aoti_load_package
from torch.utils import _pytree as pytree


def main(folder: Path) -> None:
    """Run the package and the library on the inputs that lie beside them."""
    given, threads = torch.load(folder / "given.pt")
    torch.set_num_threads(threads)
    package = aoti_load_package(str(folder / "model.pt2"))
    library = torch._C._aoti.AOTIModelContainerRunnerCpu(str(folder / "model.so"), 1)
    found = {
        "pt2": [_tensors(package(*_copies(arguments))) for arguments in given],
        "so": [_tensors(library.run(_copies(arguments))) for arguments in given],
    }
    assert not any(name.startswith("wrapper_ir") for name in sys.modules)
    torch.save(found, folder / "found.pt")


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]


def _copies(values: list[Tensor]) -> list[Tensor]:
    return [value.clone() for value in values]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
