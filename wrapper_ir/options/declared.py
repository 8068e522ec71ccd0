"""The options of the library: names, types, defaults, legal values, help.

The classes and commands that take an option refer to it here. Options that only one emitter has
are declared with that emitter.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from wrapper_ir.options.schema import Exclusion, Option

# Memory planning.

ARENA: Final = Option(
    *("arena", str, "call", "how long arenas last: for a call, or kept for the next one"),
    choices=("call", "kept"),
    excludes=(
        Exclusion(
            *("kept", "strategy", ("pool",)),
            expected="'call' if memory is planned by {}: there are no arenas to keep",
        ),
    ),
)

STRATEGY: Final = Option(
    *("strategy", str, None),
    "how storage is planned: reuse freed storage (reuse), place storages in arenas (pool), or only"
    " free them early (none); the default is reuse, or pool for kept arenas",
    choices=("reuse", "pool", "none"),
    formerly="memory",
)

# Emitters.

ORIGINS: Final = Option(
    "origins", bool, False, "add comments that say where in the model the code comes from"
)

CHECKS: Final = Option(
    *("checks", str, "always", "when to check inputs and results of ops"),
    choices=("always", "first_call", "never"),
)

SCRATCH_BYTES: Final = Option(
    *("scratch_bytes", int, 0, "bytes of scratch memory kept between calls; 0 for none"),
    least=0,
    expected="a number of bytes",
    formerly="keep_buffers",
)

OUT: Final = Option(
    "out", bool, False, "let callers pass memory for results: function(*inputs, out=[...])"
)

PROFILE: Final = Option(
    "profile", bool, False, "show each call and each allocation as a range in PyTorch's profiler"
)

# The backend of torch.compile, and install().

EMITTER: Final = Option(
    *("emitter", str, "python", "the installed emitter that renders the program"),
    expected="the name of an emitter",
    variable="WRAPPER_IR_EMITTER",
)

ON_UNSUPPORTED: Final = Option(
    *("on_unsupported", str, "raise"),
    "what to do with a graph that cannot be compiled here: raise an error, or use Inductor's own"
    " wrapper with a warning",
    choices=("raise", "stock"),
    variable="WRAPPER_IR_ON_UNSUPPORTED",
)

ON_BREACH: Final = Option(
    *("on_breach", str, "raise"),
    "what to do with a graph that is compiled to overwrite its caller's memory, or to return it,"
    " where the graph does not: raise an error, or warn and go on",
    choices=("raise", "warn"),
    variable="WRAPPER_IR_ON_BREACH",
)

VALIDATE: Final = Option(
    *("validate", str, "off"),
    "whether to compare each program with the graph that it was made from: not at all, with a"
    " warning for what differs, or with an error",
    choices=("off", "warn", "error"),
    variable="WRAPPER_IR_VALIDATE",
)

VERIFY_RANKS: Final = Option(
    *("verify_ranks", str, "off"),
    "whether ranks compare their programs with collectives before they first call them: not at all,"
    " with a warning for what differs, or with an error",
    choices=("off", "warn", "error"),
    variable="WRAPPER_IR_VERIFY_RANKS",
)

VERIFY_RANKS_SECONDS: Final = Option(
    *("verify_ranks_seconds", int, 300, "how long ranks then wait for each other"),
    least=1,
    expected="a number of seconds",
    variable="WRAPPER_IR_VERIFY_RANKS_SECONDS",
)

BUILD: Final = Option(
    *("build", str, "background"),
    "when the library of a program in C++ is built: beside the first calls, which emitted Python"
    " serves (background), or before the first call (wait)",
    choices=("background", "wait"),
    variable="WRAPPER_IR_BUILD",
)

MODE: Final = Option(
    *("mode", str, "default"),
    "a mode of torch.compile: Inductor's options for it, with our CUDA graphs (`cuda_graph`)",
    choices=("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
)

CPP_EMITTER: Final = "cpp"
"""The emitter that Inductor's ``cpp_wrapper`` means, and that libraries are built from."""

CPP_WRAPPER: Final = Option(
    *("cpp_wrapper", bool, None),
    "Inductor's option: emit C++ (`emitter` is \"cpp\"); by default Inductor's setting",
    excludes=(Exclusion(True, "emitter", (CPP_EMITTER,), "False with the emitter {}"),),
)

# The debug printer.

#: Every spelling of a level -> its name. The numbers and the long names are Inductor's.
LEVEL_SPELLINGS: Final = {
    **{name: name for name in ("off", "save", "print", "names", "check", "check_nan", "stats")},
    **{name: name for name in ("compare", "hook")},
    **dict(zip("0123", ("off", "save", "print", "names"), strict=True)),
    "save_only": "save",
    "print_only": "print",
    "print_kernel_names_only": "names",
}

#: The name of each level, in the order of the documentation.
LEVEL_NAMES: Final = tuple(dict.fromkeys(LEVEL_SPELLINGS.values()))


def level_name(level: object) -> str | None:
    """Return the name of the level that a string or a number stands for, or None."""
    if not isinstance(level, str | int) or isinstance(level, bool):
        return None
    return LEVEL_SPELLINGS.get(str(level).strip().lower())


DEBUG: Final = Option(
    *("debug", str | int, "off", "the values that the debug printer shows"),
    choices=LEVEL_NAMES,
    expected=f"one of {', '.join(map(repr, LEVEL_NAMES))}, or one of Inductor's numbers 0 to 3",
    accepts=lambda level: level_name(level) is not None,
    variable="WRAPPER_IR_DEBUG",
)

DEBUG_FILTER: Final = Option(
    *("debug_filter", str, "*", "pattern for the kernels and ops to show"),
    expected="a pattern such as '*softmax*'",
    accepts=lambda pattern: isinstance(pattern, str) and bool(pattern),
    variable="WRAPPER_IR_DEBUG_FILTER",
)

DEBUG_POISON: Final = Option(
    *("debug_poison", bool, False),
    "fill new memory with NaN, to expose reads of uninitialised memory",
    variable="WRAPPER_IR_DEBUG_POISON",
)

# Capturing and building.

ISA: Final = Option(
    *("isa", str, "native", "processors to build for: native, or a level such as x86-64-v3"),
    choices=("native", "x86-64-v2", "x86-64-v3", "x86-64-v4"),
)

CONSTANTS: Final = Option(
    *("constants", str, "auto"),
    "where to put the values of constants: in the library, in a file beside it, or nowhere",
    choices=("auto", "embedded", "beside", "none"),
)

DEBUG_INFO: Final = Option(
    "debug_info", bool, False, "also write debug information, to a file beside the output"
)

JOBS: Final = Option(
    *("jobs", int | None, None, "how many compilers to run at once; by default one per processor"),
    least=1,
    expected="a positive number",
)

# The cache on disk.

CACHE_MAX_BYTES: Final = Option(
    *("cache_max_bytes", int, 2 << 30, "the maximum size of the cache on disk, in bytes"),
    least=0,
    expected="a number of bytes",
    variable="WRAPPER_IR_CACHE_MAX_BYTES",
)

# What a target can render of planned programs.

MIXED_POOLS: Final = Option(
    "mixed_pools", bool, default=True, help="slices of a pool may have another type than the pool"
)

RETYPED_REUSE: Final = Option(
    "retyped_reuse", bool, default=True, help="memory may be reused as another type than its own"
)

RETYPED_WRITES: Final = Option(
    "retyped_writes",
    str,
    default="all",
    choices=("all", "kernels", "none"),
    help="the calls that may write memory as another type than its own; 'kernels' have no grid",
)

WRITTEN_GAPS: Final = Option(
    "written_gaps",
    bool,
    default=True,
    help="library ops may write whole buffers that may have gaps",
)

SHARED_LOOPS: Final = Option(
    "shared_loops",
    bool,
    default=True,
    help="loops may carry memory that another operand shares, and hand on what they are given",
)


@dataclass(frozen=True, slots=True)
class Legal:
    """The parts of planned programs that a target can render; the default is everything.

    An emitter declares it (``Emitter.legal``). The pass ``legalise`` takes it as options and lowers
    the rest. What is still illegal when a program is rendered is rejected by name.

    Attributes:
        mixed_pools: Slices of a pool may have another element type than the pool. If not, a pool is
            split into one for each type.
        retyped_reuse: ``reuse`` may give memory another element type. If not, the new buffer gets
            memory of its own.
        retyped_writes: The calls that may write memory as another element type than its own:
            ``"all"``, only ``"kernels"`` that have no grid, or ``"none"``. Others write a copy.
        written_gaps: Library ops may write a whole buffer whose elements are not provably next to
            each other. If not, they write a copy.
        shared_loops: Loops may carry memory that another operand shares, and their bodies may
            return what they are given. If not, they get copies, unless a write would tell.
    """

    mixed_pools: bool = MIXED_POOLS.field()
    retyped_reuse: bool = RETYPED_REUSE.field()
    retyped_writes: str = RETYPED_WRITES.field()
    written_gaps: bool = WRITTEN_GAPS.field()
    shared_loops: bool = SHARED_LOOPS.field()

    @property
    def passes(self) -> tuple[str, ...]:
        """The pass that makes programs legal, in textual form; none if everything is."""
        given = []
        for field in dataclasses.fields(Legal):
            value = getattr(self, field.name)
            if value != field.default:
                given.append(f"{field.name}={str(value).lower()}")
        return (f"legalise{{{','.join(given)}}}",) if given else ()
