"""The rules of the verifier as data.

A rule's code never changes and is never reused: people search for it and tools match on it. The
table in ``docs/verifier.md`` is generated from this list, and a test requires an invalid program
for each rule.

Where a rule says "provably", the program gets the benefit of the doubt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the verifier.

    ``checks`` states the rule in Markdown, as a property of valid programs. ``template`` and
    ``hint`` are format strings for the fields of a violation. A warning may be about something
    intended, so it is reported on request only and does not make the program invalid.
    """

    code: str
    name: str
    checks: str
    template: str
    hint: str = ""
    is_warning: bool = False


#: Every rule by its code, in the order of the codes.
RULES: Final[dict[str, Rule]] = {}


def _rule(title: str, checks: str, template: str, hint: str, *, is_warning: bool = False) -> Rule:
    """Enter a rule. The title is its code and its name."""
    code, name = title.split()
    rule = Rule(code, name, checks, template, hint, is_warning)
    if rule.code in RULES:
        raise ValueError(f"{rule.code} is taken")
    RULES[rule.code] = rule
    return rule


# Names and tables.
BAD_NAME = _rule(
    "WIR1001 bad-name",
    "names are ASCII identifiers (an op's is `namespace::name` with an optional overload)",
    "{name!r} is not a legal name for a {what}",
    "a name is ASCII letters, digits and underscores, and does not begin with a digit",
)
DEFINED_TWICE = _rule(
    "WIR1002 defined-twice",
    "a buffer is defined once in the whole program, regions included",
    "%{name} is defined twice; the first time {first}",
    "a name stands for one view, defined once in the program: give the second one its own",
)
NO_LAYOUT = _rule(
    "WIR1003 no-layout",
    "every defined buffer has a layout",
    "%{name} has no layout",
    "add a layout for it to Program.buffers",
)
LAYOUT_OF_NOTHING = _rule(
    "WIR1004 layout-of-nothing",
    "every layout belongs to a defined buffer",
    "there is a layout for %{name}, which nothing defines",
    "remove it from Program.buffers, or define the buffer",
)
BAD_ORIGIN = _rule(
    "WIR1005 bad-origin",
    "a line's origin is in the program's table",
    "the line's origin is #{origin}, but the program has {count}",
    "an origin is an index into Program.origins",
)
BAD_TIE = _rule(
    "WIR1006 bad-tie",
    "a tied constant names the constant that holds the storage",
    "constant %{name} is tied to %{tied}, which {why}",
    "tie constants to the one that holds the storage",
)
TOO_DEEP = _rule(
    "WIR1007 too-deep",
    "regions are nested at most 64 deep",
    "regions are nested more than {limit} deep; the contents of this one are not checked",
    "split the program, or flatten the control flow",
)
WRONG_TYPE = _rule(
    "WIR1008 wrong-type",
    "fields hold values of their types; if one does not, nothing else is checked",
    "{what} is {found}, but {expected} is needed",
    "give it a value of the field's type; nothing else is checked until then",
)

OBJECT_NAME_TAKEN = _rule(
    "WIR1009 object-name-taken",
    "objects and buffers have different names",
    "object &{name} has the name of {other}",
    "objects and buffers cannot share a name: rename one of them",
)

# Layouts.
RANKS_DIFFER = _rule(
    "WIR1011 ranks-differ",
    "a layout has as many strides as sizes",
    "%{name} has {sizes} sizes, but {strides} strides",
    "give one stride per size",
)
NEGATIVE = _rule(
    "WIR1012 negative",
    "sizes, strides and offsets are not provably negative",
    "%{name} has the negative {what} {value}",
    "sizes, strides and offsets count from 0; torch has no negative strides",
)
TOO_LARGE = _rule(
    "WIR1013 too-large",
    "the bytes that a layout spans fit an int64",
    "%{name} spans {nbytes} bytes, more than an int64 can count",
    "correct the sizes: no machine has that much memory",
)
OWNER_OFFSET = _rule(
    "WIR1014 owner-offset",
    "owners of storage (allocations, inputs, constants, fresh results) begin at its start",
    "%{name} owns its storage, but its layout begins at element {offset}",
    "an owner of storage begins at 0; use a reinterpret for a view at an offset",
)
POOL_RANK = _rule(
    "WIR1015 pool-rank",
    "a pool has one dimension",
    "pool %{name} has {rank} dimensions",
    "a pool's layout is one-dimensional",
)
SYMBOLIC_CONSTANT = _rule(
    "WIR1016 symbolic-constant",
    "the layout of a constant has no symbols",
    "the layout of constant %{name} mentions {symbols}",
    "the sizes, strides and offset of a constant are known numbers",
)
NOT_STRIDED = _rule(
    "WIR1017 not-strided",
    "buffers that are not strided are only made by library ops, passed to library ops, checked, "
    "freed and returned; opaque ones may also be allocated, reused with the same layout, and "
    "passed to kernels in languages of vendors",
    "%{name} is {kind}, but {why}",
    "only library ops can access a tensor that is not strided: convert it with one of them",
)

# Lifetimes.
UNDEFINED = _rule(
    "WIR1021 undefined",
    "a buffer is defined before it is used",
    "%{name} is not defined{later}",
    "define it before it is used{near}",
)
USE_AFTER_FREE = _rule(
    "WIR1022 use-after-free",
    "nothing uses a buffer whose storage was freed or donated to a region; a free may still follow "
    "the latter",
    "%{name} is used after its storage was freed{by}",
    "move the free after the last use of all views of the storage",
)
USE_AFTER_REUSE = _rule(
    "WIR1023 use-after-reuse",
    "nothing uses a buffer whose storage was reused by another one, since its contents would have "
    "changed",
    "%{name} is used after its storage went to %{to}{by}",
    "the contents may have changed: use the new name, or reuse another buffer",
)
DOUBLE_FREE = _rule(
    "WIR1024 double-free",
    "storage is freed once",
    "%{name} is freed twice; {first}",
    "remove one of the two",
)
FREE_OF_VIEW = _rule(
    "WIR1025 free-of-view",
    "views are not freed, only what owns the storage",
    "%{name} is a view of %{owner} and cannot be freed",
    "free %{owner}",
)
FREE_OF_CONSTANT = _rule(
    "WIR1026 free-of-constant",
    "constants are not freed",
    "%{name} is {what} and cannot be freed",
    "constants belong to the program and outlive each call",
)
WRITE_TO_CONSTANT = _rule(
    "WIR1027 write-to-constant",
    "constants that are not mutable are not written, not even through views",
    "%{name} is written, but {what} is not mutable",
    "mark the constant as mutable, or write to a copy",
)
LEAK = _rule(
    "WIR1028 leak",
    "in planned programs, owned storage is freed, reused or returned (directly or through a view)",
    "the storage of %{name} never ends",
    "in a planned program, free, reuse or return all owned storage; plan_memory adds frees",
)
DEAD_PEEK = _rule(
    "WIR1029 dead-peek",
    "buffers that a probe shows are alive",
    "the probe shows %{name}, {why}",
    "move the probe, or leave the buffer out of it",
)
DEAD_RESULT = _rule(
    "WIR1030 dead-result",
    "results are alive",
    "result {position} is %{name}, {why}",
    "results are alive at the end: remove the free or reuse, or return something else",
)
NOT_ISOLATED = _rule(
    "WIR1031 not-isolated",
    "a region sees its parameters, its own definitions and constants, nothing else",
    "%{name} is defined outside this region",
    "a region sees its parameters, its own definitions and constants: pass it as an operand",
)
PARAM_ENDED = _rule(
    "WIR1032 param-ended",
    "a region's parameters are not freed or taken, unless donated; what a loop captures, and what "
    "its condition takes, is not donated",
    "%{name} is a parameter of the region and cannot be {verb} in it",
    "the storage belongs to the caller, unless the parameter is donated",
)
UNWRITTEN_READ = _rule(
    "WIR1033 unwritten-read",
    "nothing is read before it is written: no call reads a buffer that provably has elements and "
    "whose storage was neither zeroed nor written, unless the call writes it too",
    "%{name} is read, but nothing has written to its storage",
    "write to it first, or allocate it zeroed",
    is_warning=True,
)
PACKED_USE = _rule(
    "WIR1034 packed-use",
    "a packed constant is only read by library ops: no view, kernel, probe or result uses it; it "
    "is neither mutable nor tied, and is packed from constants that do not change",
    "%{name} is packed, but {why}",
    "only library ops can read the format of a packed constant",
)

UNKNOWN_OBJECT = _rule(
    "WIR1035 unknown-object",
    "an object is an input, a constant or a result of an earlier line, and not used in regions",
    "&{name} is not an object {where}{near}",
    "objects are inputs or constants of the program, or results of earlier lines, and only lines "
    "outside regions may use them",
)

BAD_FOLDING = _rule(
    "WIR1036 bad-folding",
    "folded constants are the results of a program without inputs, in order, with the same "
    "layouts; it has the stage of this one, and its constants are immutable ones of this one, "
    "neither packed nor folded, with the same names in the model",
    "{what} {why}",
    "a folding program computes the constants of kind 'folded' from the model's other constants",
)

# Reuse and views.
REUSE_DOES_NOT_FIT = _rule(
    "WIR1041 reuse-does-not-fit",
    "reuse fits: the bytes that the new layout spans provably lie within the storage",
    "%{name} needs {needed} bytes, but the storage of %{donor} has {capacity}",
    "reuse storage that provably is at least as large, or allocate",
)
REUSE_OF_VIEW = _rule(
    "WIR1042 reuse-of-view",
    "only what owns storage is reused, not a view",
    "%{donor} is a view of %{owner}, and only what owns storage can be reused",
    "reuse %{owner}, once every view of it is done",
)
REUSE_OF_BORROWED = _rule(
    "WIR1043 reuse-of-borrowed",
    "inputs that are not donated, constants and pools are not reused",
    "%{donor} is {what} and its storage cannot be taken",
    "mark the input as donated, if the caller gives it up, or allocate",
)
DEVICES_DIFFER = _rule(
    "WIR1044 devices-differ",
    "a view, reuse or slice is on the device of its storage",
    "%{name} is on {device}, but {other} is on {expected}",
    "copy across devices with an extern",
)
VIEW_OUT_OF_BOUNDS = _rule(
    "WIR1045 view-out-of-bounds",
    "a view does not provably end beyond its storage (if it has elements)",
    "%{name} ends at byte {end}, but the storage of %{owner} has {capacity}",
    "an offset counts from the start of the storage, in elements of the view's own dtype",
)
MISALIGNED = _rule(
    "WIR1046 misaligned",
    "a view begins a whole number of its elements into its source, a slice into its pool",
    "%{name} begins {distance} bytes into %{source}, which {dtype} elements of {itemsize} bytes"
    " do not divide",
    "begin at a multiple of the element, or view the storage's owner instead",
)

HELD_STORAGE = _rule(
    "WIR1047 held-storage",
    "arguments of a call with an object, and its `held` results, are not slices of a pool, and "
    "their storage is neither kept nor reused: the object may hold it",
    "an object may hold %{name}, {what}",
    "allocate separate memory for it, and free it when the program no longer uses it",
)
KEPT_RESULT = _rule(
    "WIR1048 kept-result",
    "storage that is kept for the next call is not returned, even in part, nor passed to regions "
    "or third-party ops, which may hold on to it, unless it is `symmetric`",
    "%{name} is kept for the next call, but {why}",
    "the next call writes to it while {who} it: remove 'kept'",
)

# Symbols.
SYMBOL_TWICE = _rule(
    "WIR1051 symbol-twice",
    "a symbol is bound once",
    "symbol {name} is bound twice; the first time {first}",
    "a symbol is bound once in the program",
)
SYMBOL_UNBOUND = _rule(
    "WIR1052 symbol-unbound",
    "a symbol is bound before its value is needed. The layout of an input, a parameter or a call's "
    "result is needed at the first use of the buffer that is not for its metadata",
    "symbol {name} is not bound{where}",
    "bind it before its value is needed: by an input, 'bind', 'compute' or a call's result",
)
SYMBOL_UNLISTED = _rule(
    "WIR1053 symbol-unlisted",
    "a symbol is in the program's table",
    "symbol {name} is not in the program's table of symbols",
    "add it to Program.symbols with its kind",
)
SYMBOL_OUT_OF_REGION = _rule(
    "WIR1054 symbol-out-of-region",
    "a symbol bound in a region is not used outside",
    "symbol {name} is bound in a region that has ended ({where})",
    "return it from the region as a result",
)
SYMBOL_KIND = _rule(
    "WIR1055 symbol-kind",
    "a symbol's kind matches its value and uses",
    "symbol {name} is {kind}, but {what}",
    "make the symbol's kind match its value",
)
EMPTY_RANGE = _rule(
    "WIR1056 empty-range",
    "a symbol's range is not empty",
    "symbol {name} ranges from {lower} to {upper}, which holds no number",
    "the lower bound is at most the upper one",
)
NO_SUCH_DIM = _rule(
    "WIR1057 no-such-dim",
    "a dimension in a `size` or `stride` exists",
    "%{name} has {rank} dimensions, so it has no dimension {dim}",
    "dimensions count from 0",
)
NOT_ONE_ELEMENT = _rule(
    "WIR1058 not-one-element",
    "a buffer that is read as a number has one element",
    "%{name} has {numel} elements, but one is needed",
    "read a number from a buffer of one element",
)
NOT_A_CONDITION = _rule(
    "WIR1059 not-a-condition",
    "an asserted condition is a truth value",
    "{value} is {found}, not a truth value",
    "write a relation, such as 's0 >= 2'",
)

# Kernels and calls.
UNKNOWN_KERNEL = _rule(
    "WIR1061 unknown-kernel",
    "kernels and ops are declared before they are called",
    "{name} is not declared{later}",
    "declare it before the call{near}",
)
KERNEL_TWICE = _rule(
    "WIR1062 kernel-twice",
    "kernels and ops are declared once",
    "{name} is declared twice; the first time {first}",
    "remove one",
)
KERNEL_IN_REGION = _rule(
    "WIR1063 kernel-in-region",
    "kernels and ops are declared outside regions",
    "{name} is declared inside a region",
    "declare kernels in the program's own body: they are global",
)
BAD_OP_DECLARATION = _rule(
    "WIR1064 bad-op-declaration",
    "an op is declared under its schema's name, without parameters of its own; a method under "
    "the class of its first argument",
    "{name} is declared {why}",
    "an op is declared under its schema's qualified name, and the schema gives its parameters",
)
BAD_SCHEMA = _rule(
    "WIR1065 bad-schema",
    "a schema can be read",
    "the schema of {name} cannot be read: {reason} at column {column}",
    "write it as torch does, such as 'aten::relu(Tensor self) -> Tensor'",
)
WRONG_CALL = _rule(
    "WIR1066 wrong-call",
    "kernels are called by `call`, ops by `extern`",
    "{name} is {what}, which a '{mnemonic}' line cannot call",
    "{fix}",
)
ARGUMENT_COUNT = _rule(
    "WIR1067 argument-count",
    "the number of arguments is right",
    "{name} takes {expected}, but {given} given",
    "{fix}",
)
ARGUMENT_KIND = _rule(
    "WIR1068 argument-kind",
    "each argument has the kind that the parameter or schema requires; an object, its class",
    "{which} of {name} takes {expected}, but is given {given}",
    "the declaration says what each argument is",
)
ARGUMENT_DTYPE = _rule(
    "WIR1069 argument-dtype",
    "a buffer argument has the parameter's dtype",
    "{which} of {name} points to {expected}, but %{buffer} is {given}",
    "pass a view of the buffer as that type (reinterpret), or correct the parameter",
)
ARGUMENT_ACCESS = _rule(
    "WIR1070 argument-access",
    "each argument is passed with the declared access",
    "{which} of {name} is passed as {given}, but the {source} says {expected}",
    "the access in a call repeats that of the declaration",
)
ARGUMENT_DEVICE = _rule(
    "WIR1071 argument-device",
    "each argument is on the call's device",
    "{which} of {name}, %{buffer}, is on {given}, but the call runs on {expected}",
    "copy it across first, or correct the call's device",
)
BAD_GRID = _rule(
    "WIR1072 bad-grid",
    "a kernel has a grid if its language launches over one, else none",
    "{name} is {what}, but the call has {grid}",
    "a grid has one to three sizes; kernels in C++ have none",
)
ARGUMENT_RANGE = _rule(
    "WIR1073 argument-range",
    "a number fits the parameter's machine type",
    "{which} of {name} is {value}, which {type} cannot hold",
    "declare the parameter with a larger type, or pass a smaller number",
)
BAD_PARAM = _rule(
    "WIR1074 bad-param",
    "a kernel's parameters have different names",
    "{name} has two parameters called {param!r}",
    "rename one",
)
BAD_STREAM = _rule(
    "WIR1075 bad-stream",
    "a line's stream is the caller's, 0, or one that the program declares for its device",
    "the stream of a line cannot be {stream}: {why}",
    "0 is the caller's stream; declare others, as in 'stream 1 @cuda:0'",
)
NO_MEMORY = _rule(
    "WIR1076 no-memory",
    "kernels are called on devices with memory, not on `meta`",
    "{name} is called on {device}, where buffers have no memory",
    "a kernel touches memory: call it where the memory is, or leave the call out",
)
BAD_GROUP = _rule(
    "WIR1077 bad-group",
    "a work-group has up to three sizes of at least 1",
    "the work-group of {name} has the sizes {sizes}",
    "give up to three sizes, each at least 1; none leaves them to the launcher",
)

# Library ops.
UNKNOWN_KEYWORD = _rule(
    "WIR1082 unknown-keyword",
    "keyword arguments exist",
    "{name} has no argument {keyword!r}",
    "it has {names}{near}",
)
ARGUMENT_TWICE = _rule(
    "WIR1083 argument-twice",
    "each argument is given once",
    "argument {keyword!r} of {name} is given twice",
    "remove one",
)
UNWANTED_NONE = _rule(
    "WIR1084 unwanted-none",
    "`none` is passed to torch's own ops only for arguments that the schema marks as optional",
    "{which} of {name} cannot be none: it takes {expected}",
    "only what the schema marks with '?' may be none",
)
BAD_RESULT_PATH = _rule(
    "WIR1085 bad-result-path",
    "a result's path leads to a value that the op returns, and no two results' to the same",
    "{name} has no result at {path}{why}",
    "its results are {returns}",
)
BAD_RESULT_KIND = _rule(
    "WIR1086 bad-result-kind",
    "tensors define buffers, numbers bind symbols",
    "the result of {name} at {path} is {expected}, not {given}",
    "define tensors as buffers and bind numbers to symbols",
)
BAD_RELATION = _rule(
    "WIR1087 bad-relation",
    "a result is declared as fresh or as a view according to the alias sets of the schema",
    "%{result} is declared as {given}, but the schema of {name} says {expected}",
    "declare the result as the schema does",
)
BAD_ALIAS_SOURCE = _rule(
    "WIR1088 bad-alias-source",
    "a view names the arguments that it may be a view of, a fresh result names none, and a held "
    "one is the result of a call that is given an object",
    "%{result} is declared as {given}, {why}",
    "{fix}",
)
SHARED_ARGUMENT = _rule(
    "WIR1089 shared-argument",
    "an op does not write memory of an argument that it reads, unless the schema puts both in one "
    "alias set; elementwise ops of torch may be given the same view for both, but not a part of it",
    "{name} writes '{argument}', %{written}, and reads '{other}', %{read}, in the same memory",
    "copy the argument that is read, or allow the overlap by putting both into one alias set of "
    "the op's schema: 'Tensor(a) {other}' and 'Tensor(a!) {argument}'",
)
NOT_WAITED_FOR = _rule(
    "WIR1090 not-waited-for",
    "before `wait_tensor`, buffers that a collective writes are not used, returned or left to the "
    "caller, and buffers that it reads are not written",
    "%{name} is used while {op} may still be using it",
    "call _c10d_functional::wait_tensor on it first",
)

# Regions.
PARAMS_DIFFER = _rule(
    "WIR1091 params-differ",
    "a region's parameters match the operands: number, kind, layout",
    "the {region} region takes {expected}, but {given}",
    "{fix}",
)
RESULT_COUNT = _rule(
    "WIR1092 result-count",
    "a region has as many results as its line defines",
    "the {region} region has {given}, but {expected} needed",
    "a region has one result for each that its line defines",
)
RESULTS_DIFFER = _rule(
    "WIR1093 results-differ",
    "a region's results have the kinds and layouts that its line defines",
    "result {position} of the {region} region is {given}, but {expected} is needed",
    "dtype, device, sizes and strides must be equal",
)
BAD_PREDICATE = _rule(
    "WIR1094 bad-predicate",
    "a predicate is a truth value or one bool",
    "the predicate is {given}",
    "use a truth value or a buffer of one bool",
)
SHARED_RESULT = _rule(
    "WIR1095 shared-result",
    "a result of a region lies in the storage of operands if it is declared to, and only then",
    "result {position} of the {region} region is {what}, but %{result} is declared as {relation}",
    "return a copy, or declare which operands the result may alias: may_alias(%x) in text, "
    "may_alias=True in a call of the builder",
)
UNTOLD_WRITE = _rule(
    "WIR1096 untold-write",
    "an operand is passed for writing if a region changes it",
    "the {region} region changes its parameter %{param}, but %{operand} is passed as {given}",
    "pass the operand with an access that writes",
)
BAD_SELECTOR = _rule(
    "WIR1097 bad-selector",
    "a selector is an integer, or a buffer with one integer of a type that torch can clamp",
    "the selector is {given}",
    "use an integer or a buffer of one",
)
NO_CASES = _rule(
    "WIR1098 no-cases",
    "a switch has at least one region",
    "the switch has no regions",
    "give the line at least one region",
)

# Pools.
NOT_A_POOL = _rule(
    "WIR1101 not-a-pool",
    "slices are cut from pools",
    "%{name} is not a pool",
    "cut slices from buffers that 'allocate_pool' defines",
)
SLICE_OUT_OF_POOL = _rule(
    "WIR1102 slice-out-of-pool",
    "a slice does not provably extend beyond its pool",
    "%{name} covers bytes {start} to {end} of pool %{pool}, which has {capacity}",
    "enlarge the pool, or move the slice",
)
SLICES_OVERLAP = _rule(
    "WIR1103 slices-overlap",
    "two slices do not provably overlap while both are alive, for all values of the symbols or, "
    "outside of regions, for one of a few choices that satisfy ranges, definitions and assertions "
    "(a slice with a symbolic place is compared with at most 64 others)",
    "%{name} and %{other} overlap in pool %{pool} while both are alive{where}",
    "end one before the other begins, or move it",
)
POOL_ENDS_FIRST = _rule(
    "WIR1104 pool-ends-first",
    "a pool ends after its slices",
    "pool %{pool} is freed before its slice %{slice}",
    "free the slices first",
)

# Streams.
BAD_EVENT = _rule(
    "WIR1111 bad-event",
    "an event is declared, and recorded on streams of one device",
    "the event of a line cannot be {event}: {why}",
    "declare one for each device, as in 'event 1'",
)
BAD_MEMPOOL = _rule(
    "WIR1112 bad-mempool",
    "a line's memory pool is the allocator's own, 0, or one that is declared for its device",
    "the memory pool of a line cannot be {mempool}: {why}",
    "0 is the allocator's own; declare others, as in 'mempool 1 @cuda:0'",
)
WAIT_BEFORE_RECORD = _rule(
    "WIR1113 wait-before-record",
    "an event of the program's own is recorded before it is waited for",
    "event {event} is waited for before anything recorded it",
    "record it first: a wait for an event that nothing recorded waits for nothing",
)
RACE = _rule(
    "WIR1114 race",
    "if one stream allocates or writes memory that another one reads or writes, the later one "
    "waits for the earlier one through an event",
    "stream {stream} uses %{name}, but does not wait for stream {other}, which uses it{at}",
    "record an event on stream {other} after that, and have stream {stream} wait for it",
)
ENDS_EARLY = _rule(
    "WIR1115 ends-early",
    "storage is freed after the stream that allocated it has waited for all other streams that use "
    "it, except those named in `after`",
    "%{name} is freed while stream {other} may still use it: stream {stream} does not wait",
    "have stream {stream} wait first, or free it 'after [{other}]'",
)
NOT_JOINED = _rule(
    "WIR1116 not-joined",
    "when the program ends, the caller's stream has waited for all uses of inputs, results and "
    "constants by the program's own streams, in a backward pass by the user's as well, and no "
    "result was allocated on one of its own",
    "the program ends while its stream {other} may still use %{name}",
    "have stream 0 wait for stream {other}, which the caller does not know about",
)
STREAM_IN_REGION = _rule(
    "WIR1117 stream-in-region",
    "lines in regions run on the caller's stream, with the allocator's own memory",
    "'{mnemonic}' asks for {what} in a region",
    "regions run on the caller's stream, with the allocator's own memory",
)
OPEN_BRANCH = _rule(
    "WIR1118 open-branch",
    "when the program ends, the caller's stream has waited for all captured streams",
    "the program ends before stream 0 has waited for all work of its branch, stream {stream}",
    "a captured graph ends on the caller's stream: have it wait for stream {stream} at the end",
)

# Programs of one model.
BAD_TANGENTS = _rule(
    "WIR1119 bad-tangents",
    "a program with `tangents` is a backward; they are indices of results of its forward, each "
    "once, and as many of its last inputs are tensors",
    "the tangents cannot be {tangents}: {why}",
    "the last inputs of a backward are gradients of those results of its forward",
)

# Calls of library ops, continued.
GAPS = _rule(
    "WIR1120 gaps",
    "buffers that `all_reduce_` and `broadcast_` write have no gaps, provably: these ops take the "
    "memory as one piece",
    "{op} takes the memory of %{name} as one piece, but it has gaps",
    "copy the buffer into one without gaps, and back after the wait",
)
CHANGED_TENSOR = _rule(
    "WIR1121 changed-tensor",
    "no op changes the shape or the storage of a tensor that it is given, as `transpose_` and "
    "`resize_` do: a name has one layout",
    "{name} changes the shape or the storage of the tensor that it is given",
    "give the new view a name of its own, with 'reinterpret' or an op that returns it",
)
DONATED_TWICE = _rule(
    "WIR1122 donated-twice",
    "a region gets what is donated to it under one name: it may end the storage, and no other "
    "operand is, or may be, a view of it",
    "%{name} is donated to the {region} region, which also gets its storage, perhaps, as %{other}",
    "pass it once, or let the region borrow it",
)

# What the graph says of memory that the caller knows (``contract``).
WRITES_UNASKED = _rule(
    "WIR1123 writes-unasked",
    "an input or constant is written to only if the graph that the program was made from does "
    "(checked where the graph is known)",
    "%{name} is written to, but the graph leaves it alone",
    "write to a copy; under torch.compile pass a clone, or go on with on_breach='warn'",
)
RESULT_IS_ALIAS = _rule(
    "WIR1124 result-is-alias",
    "a result shares memory with an input, a constant or another result only if it does in the "
    "graph that the program was made from, but for parts of one storage that do not touch (checked "
    "where the graph is known)",
    "result {position} shares memory with {other}, but in the graph it has memory of its own",
    "return a copy; under torch.compile clone the result, or go on with on_breach='warn'",
)

# What the graph says of the order of reads and writes (``validate``).
READ_TOO_LATE = _rule(
    "WIR1125 read-too-late",
    "a line that computes a node reads memory before the graph's next write to it (checked by "
    "`validate`, and in every compilation of a graph that writes)",
    "%{name} is read here after {node} has written to it, but the graph reads it before",
    "move the read before the write, or read a copy",
)
READ_TOO_EARLY = _rule(
    "WIR1126 read-too-early",
    "a line that computes a node reads memory after the graph's writes to it (checked by "
    "`validate`)",
    "%{name} is read here before {node} has written to it, but the graph reads it after",
    "move the read behind the write",
)
WRITE_MISSING = _rule(
    "WIR1127 write-missing",
    "the graph's writes to memory all happen, in its order (checked by `validate`)",
    "what {node} writes to %{name} is not written before this",
    "add the line that writes it, or move that line here",
)
WRONG_RESULT = _rule(
    "WIR1128 wrong-result",
    "a result holds the value that the graph returns (checked by `validate`)",
    "result {position} holds {other}, but the graph returns {node}",
    "return the buffer that holds the value",
)
WRONG_ARGUMENT = _rule(
    "WIR1129 wrong-argument",
    "a line reads the values that the nodes take that it computes, each whole and through the "
    "argument that is recorded for it (checked by `validate`)",
    "%{name} is read here, but it holds {node}, and {taken}",
    "pass the buffer that holds the value",
)
READ_MISSING = _rule(
    "WIR1132 read-missing",
    "a constant that the graph writes to is read after that where the graph reads it (checked by "
    "`validate`)",
    "what {node} reads of %{name} after {writer} has written to it, no line reads",
    "read the constant where the node is computed; its value from before is no constant",
)
WRONG_VIEW = _rule(
    "WIR1133 wrong-view",
    "a result that the graph returns as a view has the graph's sizes, strides and offset (checked "
    "by `validate`)",
    "result {position} is {given} of its storage, but {node} is {wanted}",
    "return a view with the layout that the graph says",
)

# How far kernels reach.
REACHES_OUT = _rule(
    "WIR1134 reaches-out",
    "a kernel does not provably touch memory behind the storage of an argument, where its call "
    "says how far it reaches",
    "{name} touches %{buffer} up to byte {end}, but the storage of %{owner} has {capacity}",
    "allocate as much as the kernel touches, or pass a view of larger storage",
)

# Memory that peers address.
NOT_FOR_PEERS = _rule(
    "WIR1135 not-for-peers",
    "what peers read or write through an op is allocated as memory that they address, and is no "
    "slice of other memory (inputs and constants are the caller's affair)",
    "{op} lets peers access %{name}, {why}",
    "allocate it by itself as 'symmetric' memory",
)
PEERS_MAY_ACCESS = _rule(
    "WIR1136 peers-may-access",
    "memory that an op of one side lets peers access is neither written, reused nor freed before "
    "the next op that all members of a group take part in",
    "%{name} is {verb} while peers may access it through {op}{at}",
    "wait for the peers first, with a collective of their group",
)
UNWRITTEN_FOR_PEERS = _rule(
    "WIR1137 unwritten-for-peers",
    "nothing reads memory that peers address before it is written: a buffer that provably has "
    "elements, and whose storage was neither zeroed nor written",
    "%{name} is memory for peers and is read, but nothing has written to its storage",
    "write to it first, or allocate it zeroed: peers get whatever is in memory",
)
IDLE_POOL = _rule(
    "WIR1138 idle-pool",
    "a pool ends with its last slice: no memory is allocated between the end of the last slice "
    "and that of the pool",
    "pool %{name} outlives its last slice, which ended at {last}: memory is allocated before "
    "it ends",
    "free the pool right after its last slice",
    is_warning=True,
)
WRONG_VALUE = _rule(
    "WIR1139 wrong-value",
    "what a call writes is what the graph's node computes, up to rounding (checked by `validate` "
    "with `run=True`)",
    "{what} does not hold the value of {node}: {words}",
    "extract the call with `wir.debugging.bisect` and `folder=`, and look at its kernel",
)
MIXED_DEVICES = _rule(
    "WIR1140 mixed-devices",
    "a program names all devices of a kind by their numbers, or none",
    "{device} and {other} may be one device or two: a device without a number is the current one",
    "write a number for each, or for none of them",
)
BAD_REALIGNMENT = _rule(
    "WIR1141 bad-realignment",
    "what is copied to another address is a strided input of the program that no line writes to",
    "%{name} cannot be realigned to {alignment} bytes: {why}",
    "leave 'realigned' out, and check the address: assert_layout %{name}, \"input\" align "
    "{alignment}",
)
