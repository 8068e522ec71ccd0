"""Vector instruction sets of this CPU, and the compiler flags for each.

A kernel written for 16 floats per vector is wrong, not slow, when compiled for 8. The instruction
set is therefore part of a kernel: the front end stores its name beside the source, and this module
turns the name into macros and flags, or into a clear error when this CPU does not fit.

Names and flags are those of PyTorch Inductor (``"avx512 avx512_vnni"``), so that the same source
gives the same machine code; short names (``"avx512_vnni"``), psABI levels (``"x86-64-v3"``) and
``"native"`` are accepted too. Inductor compiles and loads trial libraries to detect features (about
six seconds); here they are read from ``/proc/cpuinfo`` and the compiler's version instead.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wrapper_ir.errors import nearest
from wrapper_ir.toolchain.errors import IsaError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class OptionalFlag:
    """A compiler flag used if both the CPU and the compiler support a feature."""

    feature: str  #: as ``/proc/cpuinfo`` spells it
    flag: str
    gcc: int  #: first major version of g++ that has the flag


@dataclass(frozen=True, slots=True)
class Isa:
    """One instruction set: the CPU features it requires, and its compiler flags."""

    name: str  #: as Inductor writes it
    macros: tuple[str, ...]  #: preprocessor definitions that choose ATen's vector classes
    flags: tuple[str, ...]  #: compiler flags, in Inductor's order
    needs: frozenset[str]  #: features a CPU must have, as ``/proc/cpuinfo`` spells them
    march: str = "native"  #: value of ``-march``
    optional: tuple[OptionalFlag, ...] = ()

    @property
    def native(self) -> bool:
        """True if the generated code depends on the CPU it is compiled on."""
        return self.march == "native"

    def arch_flags(self, gcc_major: int) -> tuple[str, ...]:
        """Return the architecture flags for a g++ of this major version on this CPU."""
        extra = tuple(
            option.flag
            for option in self.optional
            if option.feature in cpu_features() and gcc_major >= option.gcc
        )
        flags = self.flags
        if self.name.startswith("sve") and "sve2" in cpu_features():
            flags = (_ARMV9, *flags[1:])
        return flags + extra

    def missing(self, features: frozenset[str]) -> tuple[str, ...]:
        """Return the required features that are not among ``features``, sorted."""
        return tuple(sorted(self.needs - features))


_AVX512 = ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma")
_VNNI = (*_AVX512, "-mavx512vnni", "-mavx512vl")
_AMX = (*_VNNI, "-mamx-tile", "-mamx-bf16", "-mamx-int8")
_BF16 = OptionalFlag("avx512_bf16", "-mavx512bf16", gcc=10)

_NEEDS_AVX2 = frozenset({"avx2", "fma", "f16c"})
_NEEDS_AVX512 = frozenset({"avx512f", "avx512dq", "avx512vl", "avx512bw", "fma"})
_NEEDS_VNNI = _NEEDS_AVX512 | {"avx512_vnni"}
_NEEDS_AMX = _NEEDS_VNNI | {"amx_tile", "amx_bf16", "amx_int8"}

#: No vector instructions beyond what the compiler uses by itself.
NONE = Isa("none", (), (), frozenset())

#: Best first: ``detect`` takes the first that fits.
_X86 = (
    Isa(
        *("avx512 avx512_vnni amx_tile", ("CPU_CAPABILITY_AVX512",), _AMX, _NEEDS_AMX),
        optional=(_BF16, OptionalFlag("amx_fp16", "-mamx-fp16", gcc=13)),
    ),
    # Inductor leaves -mavx512bf16 out here, although it adds it to both neighbours.
    Isa("avx512 avx512_vnni", ("CPU_CAPABILITY_AVX512",), _VNNI, _NEEDS_VNNI),
    Isa("avx512", ("CPU_CAPABILITY_AVX512",), _AVX512, _NEEDS_AVX512, optional=(_BF16,)),
    Isa("avx2", ("CPU_CAPABILITY_AVX2",), ("-mavx2", "-mfma", "-mf16c"), _NEEDS_AVX2),
)

#: The levels of the x86-64 psABI. Code for a level runs on any CPU of that level.
_X86_LEVELS = (
    Isa(
        *("x86-64-v4", ("CPU_CAPABILITY_AVX512",), _AVX512),
        _NEEDS_AVX512 | _NEEDS_AVX2 | {"avx512cd", "bmi1", "bmi2", "movbe"},
        march="x86-64-v4",
    ),
    Isa(
        *("x86-64-v3", ("CPU_CAPABILITY_AVX2",), ("-mavx2", "-mfma", "-mf16c")),
        _NEEDS_AVX2 | {"bmi1", "bmi2", "movbe"},
        march="x86-64-v3",
    ),
    Isa("x86-64-v2", (), (), frozenset({"sse4_2", "popcnt", "cx16"}), march="x86-64-v2"),
)


def _sve(bits: int) -> Isa:
    macros = ("CPU_CAPABILITY_SVE", f"CPU_CAPABILITY_SVE{bits}", "AT_BUILD_ARM_VEC256_WITH_SLEEF")
    return Isa(
        f"sve{bits}",
        (*macros, "__ARM_FEATURE_BF16"),
        ("-march=armv8-a+sve+bf16", f"-msve-vector-bits={bits}"),
        frozenset({"sve", "bf16"}),
    )


_ARMV9 = "-march=armv9-a+sve2+fp16fml+sha3+bf16+i8mm"

_ARM = (
    _sve(256),
    _sve(128),
    Isa(
        "asimd", ("CPU_CAPABILITY_NEON", "AT_BUILD_ARM_VEC256_WITH_SLEEF"), (), frozenset({"asimd"})
    ),
)

_ALIASES = {
    "avx512_vnni": "avx512 avx512_vnni",
    **dict.fromkeys(("amx", "amx_tile"), "avx512 avx512_vnni amx_tile"),
    "neon": "asimd",
    **dict.fromkeys(("invalid_vec_isa", "scalar"), "none"),
}

#: Names of the instruction sets for which code can be built on any machine of the architecture.
LEVELS = tuple(isa.name for isa in reversed(_X86_LEVELS))

_BY_NAME = {isa.name: isa for isa in (*_X86, *_X86_LEVELS, *_ARM, NONE)}


def detect() -> Isa:
    """Return the instruction set that Inductor would choose on this machine.

    The environment variable ``ATEN_CPU_CAPABILITY`` (``default``, ``avx2``, ``avx512``) caps the
    choice, as it does for PyTorch's own kernels.
    """
    fitting = [isa for isa in _candidates() if not isa.missing(cpu_features())]
    cap = os.environ.get("ATEN_CPU_CAPABILITY", "")
    if cap == "default":
        return NONE
    if cap in ("avx2", "avx512"):
        fitting = [isa for isa in fitting if cap in isa.name] or fitting
    return fitting[0] if fitting else NONE


def resolve(name: str = "") -> Isa:
    """Return an instruction set by name, after checking that this CPU has it.

    The name is one of Inductor's, a short name, ``x86-64-v2`` to ``v4``, ``none``, or ``native``
    (also the empty string) for the best this CPU has.

    Raises:
        IsaError: The name is unknown, or this CPU lacks a required feature.
    """
    isa = find(name)
    if name not in ("", "native"):
        _check_fits(isa, name)
    return isa


def find(name: str = "") -> Isa:
    """Return an instruction set by name, as :func:`resolve`, even if this CPU lacks it.

    Raises:
        IsaError: The name is unknown.
    """
    if name in ("", "native"):
        return detect()
    spelled = " ".join(name.lower().split())
    isa = _BY_NAME.get(_ALIASES.get(spelled, spelled))
    if isa is None:
        known = sorted({*_BY_NAME, *_ALIASES, "native"})
        close = nearest(spelled, known)
        hint = f"did you mean {close!r}?" if close else f"known: {', '.join(known)}"
        raise IsaError(isa=name, reason="there is no instruction set of that name", hint=hint)
    return isa


def level(name: str) -> Isa | None:
    """Return the psABI level of that name, or None if this architecture has none.

    Unlike other instruction sets, a level does not depend on the CPU that compiles for it.
    """
    if _family(platform.machine()) != "x86":
        return None
    return next((isa for isa in _X86_LEVELS if isa.name == name), None)


def _check_fits(isa: Isa, name: str) -> None:
    machine = platform.machine()
    for family, members in (("x86", (*_X86, *_X86_LEVELS)), ("arm", _ARM)):
        if isa in members and family != _family(machine):
            reason = f"it belongs to {family}, and this machine is {machine}"
            raise IsaError(isa=name, reason=reason)
    missing = isa.missing(cpu_features())
    if missing:
        raise IsaError(
            isa=name,
            reason=f"this CPU has no {', '.join(missing)}",
            hint=f"the best this CPU has is {detect().name!r}; vectorised source must be generated"
            " again for it, because the vector width is part of the text",
        )


def _family(machine: str) -> str:
    if machine in ("x86_64", "AMD64", "i686"):
        return "x86"
    return "arm" if machine in ("aarch64", "arm64") else machine


def _candidates() -> tuple[Isa, ...]:
    family = _family(platform.machine())
    if family == "x86":
        return _X86
    if family == "arm":
        return tuple(isa for isa in _ARM if isa.name in (f"sve{_sve_bits()}", "asimd"))
    return ()


def _sve_bits() -> int:
    """Return the SVE vector width that Inductor uses on this machine: 128 or 256 bits."""
    try:
        length = Path("/proc/sys/abi/sve_default_vector_length").read_text(encoding="ascii")
    except OSError:
        return 256
    return 128 if length.strip() == "16" else 256


@functools.cache
def cpu_features() -> frozenset[str]:
    """Return the features of the first processor, as ``/proc/cpuinfo`` spells them.

    Without that file they are derived from PyTorch's CPU capability.
    """
    fields = _cpuinfo()
    listed = fields.get("flags") or fields.get("Features")
    return frozenset(listed.split()) if listed else _features_from_torch()


#: Features that ``/proc/cpuinfo`` spells differently, punctuation aside.
_LISTED_AS = {"bmi": "bmi1", "lzcnt": "abm", "pclmul": "pclmulqdq", "sha": "shani", "sse3": "pni"}


def lacking(features: Iterable[str]) -> list[str]:
    """Return those features that this processor lacks."""
    present = {name.replace("_", "") for name in cpu_features()}
    plain = {name: name.replace(".", "").replace("-", "") for name in features}
    return [name for name, each in plain.items() if _LISTED_AS.get(each, each) not in present]


@functools.cache
def cpu_identity() -> str:
    """Return a digest of what ``-march=native`` depends on: vendor, model and features."""
    fields = _cpuinfo()
    keys = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part", "CPU variant")
    parts = [platform.machine(), *(fields.get(key, "") for key in keys), *sorted(cpu_features())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@functools.cache
def _cpuinfo() -> dict[str, str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    first = text.split("\n\n", maxsplit=1)[0]
    pairs = re.findall(r"^([^\t\n:]+?)\s*:[ \t]*(.*)$", first, flags=re.MULTILINE)
    return dict(pairs)


def _features_from_torch() -> frozenset[str]:
    import torch  # noqa: PLC0415 - only where there is no /proc/cpuinfo

    capability = torch.backends.cpu.get_cpu_capability()
    if "AVX512" in capability:
        return _NEEDS_AVX512 | _NEEDS_AVX2
    if "AVX2" in capability:
        return _NEEDS_AVX2
    return frozenset({"asimd"}) if _family(platform.machine()) == "arm" else frozenset()
