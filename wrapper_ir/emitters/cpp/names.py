"""Identifiers of generated C++: what a program's names become, and what they may not be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.devices import registered
from wrapper_ir.emitters.names import NamePlan, as_identifier
from wrapper_ir.lines.control import ObjectInput
from wrapper_ir.lines.kernels import TorchOp
from wrapper_ir.lines.walk import made_objects

if TYPE_CHECKING:
    from wrapper_ir.lines.program import Program


Key = tuple[str, str]
"""The kind of a name (``buffer``, ``symbol``, ``kernel``, ``op``), and the IR's name."""

_KEYWORDS: Final = frozenset("""
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
    co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename typeof union unsigned using virtual void
    volatile wchar_t while xor xor_eq final override import module
    """.split())  # noqa: SIM905 - one name a line would take the page

#: Words in small letters that headers define as macros, or that systems do.
_MACROS: Final = frozenset("""
    assert errno linux unix i386 stdin stdout stderr major minor makedev signbit offsetof setjmp
    alloca math_errhandling assert_perror issubnormal sched_priority strdupa strndupa
    be16toh be32toh be64toh htobe16 htobe32 htobe64 htole16 htole32 htole64 le16toh le32toh le64toh
    pthread_cleanup_pop pthread_cleanup_pop_restore_np pthread_cleanup_push
    pthread_cleanup_push_defer_np
    """.split())  # noqa: SIM905 - as above

#: What the files call things of their own.
_FILE_NAMES: Final = frozenset("""
    at c10 call constants create_state destroy_state frame heap inputs kConstants kInputs kLines
    kOutputs kProbeOperands kProbes kept_bytes main outputs run serving state State Frame
    std torch wir wir_program wir_program_info
    """.split())  # noqa: SIM905 - as above

_RESERVED: Final = _KEYWORDS | _MACROS | _FILE_NAMES


def _wanted(name: str) -> str:
    """A name like this one that neither belongs to the implementation nor begins as macros do."""
    plain = name
    while "__" in plain:
        plain = plain.replace("__", "_")
    first = plain.partition("_")[0]
    is_risky = not first or (first.isalnum() and first.isupper())
    return f"v_{plain.strip('_')}" if is_risky else plain


def make_names(program: Program) -> NamePlan[Key]:
    """The identifiers of everything that a program names."""
    wanted: list[tuple[Key, str]] = [(("buffer", name), _wanted(name)) for name in program.buffers]
    objects = [item.object for item in program.inputs if isinstance(item, ObjectInput)]
    wanted += [(("buffer", name), _wanted(name)) for name in (*objects, *made_objects(program))]
    wanted += [(("symbol", name), _wanted(name)) for name in program.symbols]
    for definition in program.kernels.values():
        if isinstance(definition.source, TorchOp):
            wanted.append((("op", definition.name), _wanted(as_identifier(definition.name))))
        else:
            wanted.append((("kernel", definition.name), _wanted(definition.name)))
    guards = {kind.cpp.guard[1] for kind in registered() if kind.cpp is not None}
    return NamePlan(wanted, _RESERVED | guards)
