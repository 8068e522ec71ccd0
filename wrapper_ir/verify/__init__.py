"""The verifier: every rule of the IR, all faults at once.

:func:`diagnose` gives the faults of a program, :func:`verify` raises one error that holds them.
Both walk the program once, in order, and cost time in proportion to its lines. What is checked:

**Names and tables**

- WIR1001 names are ASCII identifiers (an op's is ``namespace::name`` with an optional overload)
- WIR1002 a buffer is defined once in the whole program, regions included
- WIR1003 what is defined has a layout
- WIR1004 a layout belongs to something that is defined
- WIR1005 a line's origin is in the program's table
- WIR1006 a tied constant names the constant that holds the storage
- WIR1007 regions are nested at most 64 deep
- WIR1008 fields hold values of their types; where one does not, nothing else is checked
- WIR1009 objects and buffers have names of their own

**Layouts**

- WIR1011 as many strides as sizes
- WIR1012 sizes, strides and offsets are not provably negative
- WIR1013 what a layout spans fits an int64, in bytes
- WIR1014 what owns its storage (allocations, inputs, constants, fresh results) begins at its start
- WIR1015 a pool has one dimension
- WIR1016 a constant's layout is known numbers
- WIR1017 what is not strided is made by library ops, given to library ops, checked, freed and
  returned, and nothing else

**Lifetimes.** A name is a view; a storage has one owner; ending it ends every view of it.

- WIR1021 a buffer is defined before it is used
- WIR1022 nothing uses a buffer whose storage was freed
- WIR1023 nothing uses a buffer whose storage went on under another name: a view that is still
  looked at would see its contents change
- WIR1024 storage is freed once
- WIR1025 views are not freed, only what owns the storage
- WIR1026 constants are not freed
- WIR1027 constants that are not mutable are not written, through views of them either
- WIR1028 planned programs only: what is owned is freed, reused, or leaves as a result (itself, or
  through a view)
- WIR1029 a probe looks at what is alive
- WIR1030 results are alive
- WIR1031 a region sees its parameters, its own definitions and constants, nothing else
- WIR1032 a region's parameters are not freed or taken, unless donated
- WIR1033 (a warning) nothing is read before it was written: of storage that is neither zeroed nor
  written to, and provably has elements, no call reads the contents without changing them
- WIR1034 a packed constant is read by library ops and nothing else happens to it: no view, no
  kernel, no probe, no result; it is neither mutable nor tied, and what it is packed of stays
- WIR1035 an object is an input, a constant or what a line before returned, and no region gets one

**Storage that goes on, and views**

- WIR1041 reuse fits: the bytes that the new layout spans provably lie within the storage
- WIR1042 only what owns storage is reused, not a view
- WIR1043 inputs that are not donated, constants and pools are not reused
- WIR1044 a view, reuse or slice is on the device of its storage
- WIR1045 a view does not provably end behind its storage (wherever it has elements at all)
- WIR1046 a view begins a whole number of its elements into its source, a slice into its pool
- WIR1047 what a call with an object is given, or gives as ``held``, is no slice of a pool, and its
  storage does not go on under another name: the object may hold it

**Symbols**

- WIR1051 a symbol is bound once
- WIR1052 a symbol is bound before its value is needed. Of an input, a parameter or a call's result,
  the layout's numbers are needed when the buffer is first used other than for its metadata
- WIR1053 a symbol is in the program's table
- WIR1054 a symbol bound in a region is not used outside
- WIR1055 a symbol's kind fits its value and its uses
- WIR1056 a symbol's range is not empty
- WIR1057 a dimension that is asked for exists
- WIR1058 what is read as a number has one element
- WIR1059 what is asserted is a truth value

**Kernels and calls**

- WIR1061 kernels and ops are declared before they are called
- WIR1062 ... once
- WIR1063 ... and outside regions
- WIR1064 an op is declared under its schema's name, without parameters of its own; a method under
  that of the class that its first argument is of
- WIR1065 a schema can be read
- WIR1066 kernels are called by ``call``, ops by ``extern``
- WIR1067 the number of arguments is right
- WIR1068 each argument is of the kind that the parameter or schema wants, an object of its class
- WIR1069 ... of the parameter's dtype
- WIR1070 ... with the declared access
- WIR1071 ... on the call's device
- WIR1072 Triton kernels have a grid, others have none
- WIR1073 a number fits the parameter's machine type
- WIR1074 a kernel's parameters have different names
- WIR1075 a line's stream is the caller's, 0, or one that the program declares for its device
- WIR1076 kernels are called where buffers have memory, not on ``meta``
- WIR1082 keyword arguments exist
- WIR1083 ... and are given once
- WIR1084 ``none`` is given to torch's own ops only where the schema says that it is optional
- WIR1085 a result's path leads to a value that the op returns, and no two results' to the same
- WIR1086 tensors define buffers, numbers bind symbols
- WIR1087 a result is declared fresh, or a view, as the schema's alias sets say
- WIR1088 a view says of which argument, a fresh result of none; a held one is of a call that is
  given an object
- WIR1089 what an op writes is not the memory of an argument that it reads, unless the schema has
  both in one alias set; an op of torch's own may be given one view for both where it works element
  by element, and a part of it never
- WIR1090 what a collective works on is not used, returned, or written while it reads that, before
  ``wait_tensor``

**Regions**

- WIR1091 a region's parameters match the operands: number, kind, layout
- WIR1092 a region gives as many results as its line defines
- WIR1093 ... of the same kind and layout
- WIR1094 a predicate is a truth value or one bool
- WIR1095 a result that is declared fresh is not the caller's own storage, a constant or another
  result
- WIR1096 an operand is passed for writing where a region changes it
- WIR1097 what chooses among many regions is an integer, or one in a tensor that torch can clamp
- WIR1098 there is a region to choose

**Pools**

- WIR1101 slices are cut from pools
- WIR1102 a slice does not provably reach out of its pool
- WIR1103 two slices do not provably overlap while both are alive, for all values of the symbols
  or, outside of regions, for one of a few choices that keep to ranges, definitions and assertions
  (a slice with a symbolic place is compared with at most 64 others)
- WIR1104 a pool ends after its slices

**Streams.** What streams do with memory of devices is in order where each waits for the others. So
it is exact for the lines of the program's body; regions have no streams of their own. Memory of the
CPU is left out, and so is what happens before and after the program on streams of the user's.

- WIR1111 an event is declared, and recorded on streams of one device
- WIR1112 a line's memory pool is the allocator's own, 0, or one that is declared for its device
- WIR1113 an event of the program's own is recorded before it is waited for
- WIR1114 memory that one stream writes, or makes, and another reads or writes is handed on by an
  event: the later one waits for the earlier
- WIR1115 storage is freed when the stream that it was made on has waited for all that others do
  with it, those named in ``after`` excepted
- WIR1116 when the program ends, the caller's stream has waited for what the program's own streams
  do with inputs, results and constants, and no result is memory that was made on one of them
- WIR1117 lines in regions run on the caller's stream, with the allocator's own memory
- WIR1118 when the program ends, the caller's stream has waited for all that captured streams do

Warnings are for what may be meant, and are given on request only: a model may read what
``torch.empty`` gave it. They make no program wrong.

What is not checked: what kernels do with what they are given, whether all of a storage was written,
and relations among symbols that only their values at run time decide: sizes are compared by what
their ranges prove, and where a rule says "provably" the benefit of the doubt is the program's.
Hints prove nothing; they are among the choices of symbols that are tried where one that fails is
enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from wrapper_ir.lines.given import as_program
from wrapper_ir.verify.diagnostics import Diagnostic, VerificationError
from wrapper_ir.verify.rules import RULES, Rule
from wrapper_ir.verify.verifier import check_program

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

__all__ = ["RULES", "Diagnostic", "Rule", "VerificationError", "diagnose", "verify"]


#: Programs that broke no rule, by identity: what cannot change need not be looked at twice, and
#: planning and emitting verify again what their callers often have verified.
_GOOD: Final[WeakValueDictionary[int, Program]] = WeakValueDictionary()


def diagnose(program: Program, *, warnings: bool = False) -> tuple[Diagnostic, ...]:
    """Every fault of ``program``, in the order of its text; none for a good one.

    Args:
        program: Any program.
        warnings: Whether to tell also of what may be meant.
    """
    found = check_program(as_program(program, "wir.diagnose"))
    return found if warnings else _faults(found)


def _faults(found: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    return tuple(diagnostic for diagnostic in found if not diagnostic.rule.is_warning)


def verify(program: Program) -> Program:
    """``program`` itself, if it breaks no rule.

    Raises:
        VerificationError: it breaks rules; the error holds a diagnostic for each fault.
    """
    as_program(program, "wir.verify")
    if _GOOD.get(id(program)) is program:
        return program
    found = _faults(check_program(program))
    if found:
        raise VerificationError(program, found)
    _GOOD[id(program)] = program
    return program
