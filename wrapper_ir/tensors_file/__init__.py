"""Named tensors in a safetensors file: how each is stored, in which layout, and reading it again.

Convention: a tensor is stored densely under its own name and dtype, so that other tools can read
the file. If that is not possible (tensors that overlap with others or with themselves, dtypes that
the format lacks), its bytes are stored, and the file's metadata gives their layout. Storages that
were shared are shared again after loading, and names of one tensor are stored once. Tensors are
detached, and are loaded to the CPU.

Strides are in the metadata only if a file is written for readers that do not know the layouts. That
of a program's constants is read with the program. Torch is imported only if there is a tensor.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from wrapper_ir.tensors_file.layouts import Layout as Layout
from wrapper_ir.tensors_file.layouts import Tensor as Tensor
from wrapper_ir.tensors_file.layouts import TensorsFileError as TensorsFileError
from wrapper_ir.tensors_file.layouts import check_fits as check_fits
from wrapper_ir.tensors_file.layouts import fill as fill
from wrapper_ir.tensors_file.layouts import in_layout as in_layout
from wrapper_ir.tensors_file.layouts import plain as plain
from wrapper_ir.tensors_file.packing import METADATA
from wrapper_ir.tensors_file.packing import Packed as Packed
from wrapper_ir.tensors_file.reading import Reader as Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Within our metadata, the key of the name of the file that the tensors belong to. Two top-level
#: keys would have no fixed order.
OWNER: Final = "of"

#: Within it, the key of the hash of all that is stored, which the text of the program names.
IDENTITY: Final = "hash"

_NAMED: Final = re.compile(r'^values "([^"\n]*)"', re.MULTILINE)

REPLACED: Final = (
    "put back the file that was saved with the program; if other values are meant, delete the line "
    "'values' from the program's text, or save them: program.replace(data=values).save(path)"
)
"""The hint where values are not those that a program's text names."""


def identity_in(text: str) -> str:
    """Return the hash of the values that a program's text names, without parsing it."""
    found = _NAMED.search(text)
    return "" if found is None else found[1]


def owner_of(metadata: Mapping[str, str]) -> str | None:
    """Return the name of the file that tensors belong to, from the metadata of their file.

    The name is empty if not recorded. The result is None for other kinds of files.
    """
    try:
        about = json.loads(metadata.get(METADATA, ""))
    except ValueError:
        return None
    return str(about.get(OWNER, "")) if isinstance(about, dict) else None
