"""The values of constants and objects as a file of bytes, and that file as a part of a library.

Bytes go from the tensors to the file and from there into the library by the assembler's
``.incbin``: never through text, and never through a second copy in this process. Objects lie behind
tensors, as PyTorch's own archives of them. How long those are is not known before they are made, so
the library is told by a table of its own (``wir_object_places``).
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, NoReturn, TypeAlias

from wrapper_ir.aot.errors import ConstantValueError
from wrapper_ir.runtime import InputLayoutError, check_object
from wrapper_ir.runtime.checks import ObjectStateError, archive_of
from wrapper_ir.toolchain.native import constants_trailer
from wrapper_ir.toolchain.parts import aligned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wrapper_ir.emitters.cpp.constants import ConstantEntry, ConstantTable
    from wrapper_ir.lines.program import Program


EMBED_LIMIT: Final = 1 << 30
"""Bytes. Code reaches data by 32-bit distances, so that 2 GiB is the end; half of it is safe."""

Tensor: TypeAlias = Any
"""A ``torch.Tensor``; torch is imported when there is one, and not before."""

Digest: TypeAlias = Any
"""A digest of hashlib's, for which it has no public type."""

_BLOCK: Final = 1 << 24


def write_blob(
    program: Program,
    table: ConstantTable,
    file: Path,
    *,
    archives: Sequence[bytes] = (),
    trailer: bool,
) -> str:
    """Writes the bytes of all constants to a file, and behind them those of objects.

    Args:
        program: ``program.data`` holds the values, ``torch.Tensor``s on any device.
        table: Where they go.
        file: The file to make.
        archives: The bytes of the program's objects.
        trailer: Whether to add what a library checks a file beside it by.

    Returns:
        The SHA-256 of the bytes, in hexadecimal.

    Raises:
        ConstantValueError: A value is missing or does not fit its layout.
    """
    digest = hashlib.sha256()
    with file.open("wb") as out:
        for root, value in group_bytes(program, table):
            _pad(out, digest, root.data_offset)
            _append(out, digest, value)
        for archive, place in zip(archives, places_of(archives, table.size), strict=True):
            _pad(out, digest, place.offset)
            digest.update(archive)
            out.write(archive)
        if trailer:
            out.write(constants_trailer(out.tell(), digest.digest()))
    return digest.hexdigest()


def group_bytes(program: Program, table: ConstantTable) -> Iterator[tuple[ConstantEntry, Tensor]]:
    """Yields each constant that has bytes of its own, and these: a dense tensor on the CPU.

    Raises:
        ConstantValueError: A value is missing or does not fit its layout.
    """
    for root, members in _groups(table):
        if root.data_bytes:  # nothing of what is packed where the library is loaded
            yield root, _bytes_of(program, root, members)


def memory_of(tensor: Tensor) -> memoryview:
    """Returns the bytes of a dense tensor on the CPU, which has to outlive them."""
    size = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B")


def _pad(out: BinaryIO, digest: Digest, position: int) -> None:
    padding = b"\0" * (position - out.tell())
    digest.update(padding)
    out.write(padding)


def _groups(table: ConstantTable) -> list[tuple[ConstantEntry, list[ConstantEntry]]]:
    """Each root with all constants that share its bytes, itself first."""
    groups = {index: [entry] for index, entry in enumerate(table.entries) if entry.tied_to < 0}
    for entry in table.entries:
        if entry.tied_to >= 0:
            groups[entry.tied_to].append(entry)
    return [(members[0], members) for members in groups.values()]


def _append(out: BinaryIO, digest: Digest, tensor: Tensor) -> None:
    with memory_of(tensor) as view:
        for start in range(0, len(view), _BLOCK):
            block = view[start : start + _BLOCK]
            digest.update(block)
            out.write(block)


def _bytes_of(program: Program, root: ConstantEntry, members: list[ConstantEntry]) -> Tensor:
    """A dense tensor on the CPU whose memory is what the group's constants look at."""
    import torch  # noqa: PLC0415 - values are its tensors, so it is there

    itemsize = program.buffers[root.name].dtype.itemsize
    value = _checked(program, root)
    alone = all(_reach(program, entry) <= _reach(program, root) for entry in members)
    if alone and root.storage_offset == 0 and _is_dense(value, root):
        extent = root.data_bytes // itemsize
        return value.as_strided((extent,), (1,), value.storage_offset()).cpu()
    # Gaps are filled with zeros: what lies there belongs to something else, and changes.
    memory = torch.zeros(root.data_bytes, dtype=torch.uint8)
    for entry in members:
        value = _checked(program, entry)
        if value.numel():
            _place(value, entry, memory.view(value.dtype))
    return memory


def _place(value: Tensor, entry: ConstantEntry, memory: Tensor) -> None:
    """Copies a value to where its layout says; of what is expanded there is one element."""
    once = [slice(None) if step else slice(1) for step in entry.stride]
    room = memory.as_strided(entry.size, entry.stride, entry.storage_offset)
    try:
        room[tuple(once)].copy_(value[tuple(once)])
    except RuntimeError as error:
        _refuse(entry, str(error).partition("\n")[0])


def _reach(program: Program, entry: ConstantEntry) -> int:
    layout = program.buffers[entry.name]
    return (int(layout.offset) + int(layout.extent)) * layout.dtype.itemsize


def _is_dense(value: Tensor, entry: ConstantEntry) -> bool:
    """Tell whether the value lies in memory as its layout says, without gaps."""
    steps = zip(entry.size, value.stride(), entry.stride, strict=True)
    extent = 1 + sum((n - 1) * step for n, step in zip(entry.size, entry.stride, strict=True))
    return all(a == b for n, a, b in steps if n > 1) and extent <= value.numel()


def _checked(program: Program, entry: ConstantEntry) -> Tensor:
    """The value of a constant, as a plain tensor."""
    import torch  # noqa: PLC0415 - values are its tensors, so it is there

    value = program.data.get(entry.name)
    if value is None:
        _refuse(entry, "the program holds no value for it")
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        _refuse(entry, f"a {type(value).__name__} is no dense tensor")
    if value.device.type == "meta" or type(value) not in (torch.Tensor, torch.nn.Parameter):
        _refuse(entry, f"a {type(value).__name__} on {value.device} has no memory to copy")
    dtype = program.buffers[entry.name].dtype.torch_name
    if str(value.dtype) != f"torch.{dtype}" or tuple(value.shape) != entry.size:
        found = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        _refuse(entry, f"its value is {found}, its layout says {dtype}{list(entry.size)}")
    return value.detach().resolve_conj().resolve_neg()


def _refuse(entry: ConstantEntry, reason: str) -> NoReturn:
    raise ConstantValueError(name=entry.qualified_name, reason=reason)


def embedded_text(blob: str, digest: str) -> str:
    """Returns the assembly file that makes a blob, a file beside it, a part of the library.

    The section can be written: users may change constants in place, and pages that nobody writes to
    stay shared with the file.
    """
    return f"""\
\t.section .data.wir,"aw"
\t.balign 64
\t.globl wir_constants_begin
\t.hidden wir_constants_begin
wir_constants_begin:
\t.incbin "{blob}"
\t.globl wir_constants_end
\t.hidden wir_constants_end
wir_constants_end:
{_string("wir_constants_digest", digest)}{_NO_STACK}"""


def beside_text(blob: str, digest: str) -> str:
    """Returns the assembly file that tells a library of the blob beside it."""
    return _string("wir_constants_file", blob) + _string("wir_constants_digest", digest) + _NO_STACK


#: Without it the linker takes the file to want an executable stack.
_NO_STACK: Final = '\t.section .note.GNU-stack,"",%progbits\n'


def asciz(text: str) -> str:
    """Returns what assembles to a text and the zero that ends it."""
    quoted = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'\t.asciz "{quoted}"\n'


def _string(symbol: str, text: str) -> str:
    return f"""\
\t.section .rodata.{symbol},"a"
\t.globl {symbol}
\t.hidden {symbol}
{symbol}:
{asciz(text)}"""


class Place(NamedTuple):
    """The place of an object's bytes in the blob."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        """The place behind them."""
        return self.offset + self.size


def object_archives(program: Program) -> tuple[bytes, ...]:
    """Returns the bytes of each object of a program, in its order.

    Raises:
        ConstantValueError: One is missing, of another class, or of a class whose objects cannot be
            stored.
    """
    return tuple(_archive(program, name) for name in program.objects)


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


def places_of(archives: Sequence[bytes], start: int) -> tuple[Place, ...]:
    """Returns where the bytes of objects lie, the first behind ``start`` bytes of tensors."""
    places: list[Place] = []
    for archive in archives:
        places.append(Place(aligned(start), len(archive)))
        start = places[-1].end
    return tuple(places)


def places_text(places: Sequence[Place]) -> str:
    """Returns the assembly by which a library knows these places, nothing where there are none."""
    if not places:
        return ""
    rows = "".join(f"\t.quad {place.offset}, {place.size}\n" for place in places)
    return f"""\
\t.section .rodata.wir_object_places,"a"
\t.balign 8
\t.globl wir_object_places
\t.hidden wir_object_places
wir_object_places:
{rows}"""
