"""The values of constants and objects as a file of bytes (a blob), and its place in a library.

Bytes go from the tensors to the file, and from there into the library by the assembler's
``.incbin``: never through text, and never through a second copy in this process. Objects follow the
tensors as archives in PyTorch's own format. Their sizes are only known once they are written, so
the library finds them by a separate table (``wir_object_places``).
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias

from wrapper_ir.aot.errors import ConstantValueError
from wrapper_ir.runtime import InputLayoutError, check_object
from wrapper_ir.runtime.checks import ObjectStateError, archive_of
from wrapper_ir.tensors_file import fill, plain
from wrapper_ir.toolchain.manifest import aligned
from wrapper_ir.toolchain.native import constants_trailer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wrapper_ir.emitters.cpp.constants import ConstantEntry, ConstantTable
    from wrapper_ir.lines.program import Program


EMBED_LIMIT: Final = 1 << 30
"""Bytes. Code addresses data by 32-bit offsets, so 2 GiB is the limit; half of it is safe."""

Tensor: TypeAlias = Any
"""A ``torch.Tensor``. Annotations must not import torch."""

_BLOCK: Final = 1 << 24


class Place(NamedTuple):
    """The place of an object's bytes in the blob."""

    offset: int
    size: int


class Blob(NamedTuple):
    """The parts of a program's blob, and the place of each; the bytes come later."""

    table: ConstantTable
    archives: tuple[bytes, ...]  #: the bytes of the objects, which follow the constants
    places: tuple[Place, ...]  #: those of the objects
    size: int  #: the number of all bytes


def blob_of(program: Program) -> Blob:
    """Return a program's blob; raise ConstantValueError for an object that cannot be stored."""
    from wrapper_ir.emitters.cpp.constants import constant_table  # noqa: PLC0415 - only to ship

    table = constant_table(program)
    archives = tuple(_archive(program, name) for name in program.objects)
    places: list[Place] = []
    end = table.size
    for archive in archives:
        places.append(Place(aligned(end), len(archive)))
        end = sum(places[-1])
    return Blob(table, archives, tuple(places), end)


def write_blob(program: Program, blob: Blob, file: Path, *, trailer: bool) -> str:
    """Write the bytes of all constants to a file, then those of objects; return their SHA-256.

    Values are tensors on any device. With ``trailer``, what a library checks its constants file
    against is appended.

    Raises:
        ConstantValueError: A value is missing or does not fit its layout.
    """
    digest = hashlib.sha256()
    with file.open("wb") as out:

        def put(content: bytes | memoryview, position: int) -> None:
            for each in (bytes(position - out.tell()), content):
                digest.update(each)
                out.write(each)

        for root, value in group_bytes(program, blob.table):
            with memory_of(value) as view:
                for start in range(0, len(view), _BLOCK):
                    put(view[start : start + _BLOCK], root.data_offset + start)
        for archive, place in zip(blob.archives, blob.places, strict=True):
            put(archive, place.offset)
        if trailer:
            out.write(constants_trailer(out.tell(), digest.digest()))
    return digest.hexdigest()


def group_bytes(program: Program, table: ConstantTable) -> Iterator[tuple[ConstantEntry, Tensor]]:
    """Yield each constant with bytes of its own, and a dense CPU tensor that holds them.

    Raises:
        ConstantValueError: A value is missing or does not fit its layout.
    """
    groups = {index: [entry] for index, entry in enumerate(table.entries) if entry.tied_to < 0}
    for entry in table.entries:
        if entry.tied_to >= 0:
            groups[entry.tied_to].append(entry)
    for members in groups.values():
        root = members[0]
        if root.data_bytes:  # 0 for constants that are packed when the library is loaded
            yield root, _bytes_of(program, root, members)


def memory_of(tensor: Tensor) -> memoryview:
    """Return the bytes of a dense CPU tensor, which must outlive the view."""
    size = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B")


def _bytes_of(program: Program, root: ConstantEntry, members: list[ConstantEntry]) -> Tensor:
    """Return a dense CPU tensor that holds the bytes of every constant in a group."""
    import torch  # noqa: PLC0415 - imported already, as values are its tensors

    itemsize = program.buffers[root.name].dtype.itemsize
    value = _checked(program, root)
    alone = all(_reach(program, entry) <= _reach(program, root) for entry in members)
    if alone and root.storage_offset == 0 and _is_dense(value, root):
        extent = root.data_bytes // itemsize
        return value.as_strided((extent,), (1,), value.storage_offset()).cpu()
    # Gaps are filled with zeros: the memory there belongs to something else, and changes.
    memory = torch.zeros(root.data_bytes, dtype=torch.uint8)
    for entry in members:
        value = _checked(program, entry)
        if value.numel():
            _place(value, entry, memory.view(value.dtype))
    return memory


def _place(value: Tensor, entry: ConstantEntry, memory: Tensor) -> None:
    """Copy a value into place."""
    try:
        fill(memory.as_strided(entry.size, entry.stride, entry.storage_offset), value)
    except RuntimeError as error:
        _refuse(entry, str(error).partition("\n")[0])


def _reach(program: Program, entry: ConstantEntry) -> int:
    layout = program.buffers[entry.name]
    return (int(layout.offset) + int(layout.extent)) * layout.dtype.itemsize


def _is_dense(value: Tensor, entry: ConstantEntry) -> bool:
    """Return whether a value's memory matches its layout, without gaps."""
    steps = zip(entry.size, value.stride(), entry.stride, strict=True)
    extent = 1 + sum((n - 1) * step for n, step in zip(entry.size, entry.stride, strict=True))
    return all(a == b for n, a, b in steps if n > 1) and extent <= value.numel()


def _checked(program: Program, entry: ConstantEntry) -> Tensor:
    """Return the value of a constant, as a plain tensor."""
    import torch  # noqa: PLC0415 - imported already, as values are its tensors

    value = program.data.get(entry.name)
    if value is None:
        _refuse(entry, "the program holds no value for it")
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        _refuse(entry, f"a {type(value).__name__} is not a dense tensor")
    if value.device.type == "meta" or type(value) not in (torch.Tensor, torch.nn.Parameter):
        _refuse(entry, f"a {type(value).__name__} on {value.device} has no memory to copy")
    dtype = program.buffers[entry.name].dtype.torch_name
    if str(value.dtype) != f"torch.{dtype}" or tuple(value.shape) != entry.size:
        actual = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        _refuse(entry, f"its value is {actual}, but its layout says {dtype}{list(entry.size)}")
    return plain(value)


def _refuse(entry: ConstantEntry, reason: str) -> NoReturn:
    raise ConstantValueError(name=entry.qualified_name, reason=reason)


def embedded_text(blob: str, digest: str) -> str:
    """Return the assembly file that embeds a blob, a file beside it, in the library.

    The section is writable because users may change constants in place; pages that nobody writes to
    stay shared with the file.
    """
    begin = f'\t.section .data.wir,"aw"\n\t.balign 64\n{_label("wir_constants_begin")}'
    end = f'\t.incbin "{blob}"\n{_label("wir_constants_end")}'
    return begin + end + _string("wir_constants_digest", digest) + NO_STACK


def beside_text(blob: str, digest: str) -> str:
    """Return the assembly file that holds the name and digest of the blob beside a library."""
    return _string("wir_constants_file", blob) + _string("wir_constants_digest", digest) + NO_STACK


NO_STACK: Final = '\t.section .note.GNU-stack,"",%progbits\n'
"""The end of an assembly file. Without it the linker assumes an executable stack is needed."""


def asciz(text: str) -> str:
    """Return the directive for a text with a terminating zero."""
    quoted = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'\t.asciz "{quoted}"\n'


def _label(symbol: str) -> str:
    return f"\t.globl {symbol}\n\t.hidden {symbol}\n{symbol}:\n"


def _string(symbol: str, text: str) -> str:
    return f'\t.section .rodata.{symbol},"a"\n{_label(symbol)}{asciz(text)}'


def _archive(program: Program, name: str) -> bytes:
    item = program.objects[name]
    shown = item.qualified_name or name
    if name not in program.data:
        raise ConstantValueError(name=shown, reason="the program holds no value for it")
    try:
        check_object(program.data[name], shown, item.class_name)
        return archive_of(program.data[name])
    except InputLayoutError as error:
        reason = "expected {expected}, got {got}".format_map(error.fields)
        raise ConstantValueError(name=shown, reason=reason) from error
    except ObjectStateError as error:
        reason = f"an object of class {item.class_name}: {error}"
        raise ConstantValueError(name=shown, reason=reason) from error


def places_text(places: Sequence[Place]) -> str:
    """Return the assembly of the table of these places; empty if there are none."""
    if not places:
        return ""
    rows = "".join(f"\t.quad {place.offset}, {place.size}\n" for place in places)
    symbol = "wir_object_places"
    return f'\t.section .rodata.{symbol},"a"\n\t.balign 8\n{_label(symbol)}{rows}'
