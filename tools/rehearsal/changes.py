"""What a release may change of torch, one thing each, and the words by which we must name it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from tools.rehearsal.overlay import VERSION, Overlay

_INDUCTOR: Final = "torch/_inductor"
_WRAPPER: Final = "torch/_inductor/codegen/wrapper.py"
_CPP: Final = "torch/_inductor/codegen/cpp.py"
_IR: Final = "torch/_inductor/ir.py"

_Place: TypeAlias = tuple[str, str, str]
"""A file, a text in it, and what stands there instead."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs.

    Attributes:
        what: It in words.
        make: Changes a torch.
        words: One of these must be in an error that it causes.
    """

    what: str
    make: Callable[[Overlay], None]
    words: tuple[str, ...]


def _rename(old: str, new: str, what: str, within: str = "torch") -> Change:
    def make(torch: Overlay) -> None:
        torch.rename(old, new, within=within)

    return Change(f"{what} `{old}` is `{new}`", make, (old, new))


def _replace(what: str, words: tuple[str, ...], *places: _Place) -> Change:
    def make(torch: Overlay) -> None:
        for place in places:
            torch.replace(*place)

    return Change(what, make, words)


def _rename_c_function(torch: Overlay) -> None:
    torch.rename("aoti_torch_empty_strided", "aoti_torch_new_strided", within="torch/include")
    # What was compiled against the headers of another release is not taken for this one.
    torch.replace("torch/version.py", VERSION, f"{VERSION}.1")


_NEW_LINE: Final = """@dataclasses.dataclass
class PrefetchLine(WrapperLine):
    wrapper: PythonWrapperCodegen
    name: str

    def codegen(self, code: IndentedBuffer) -> None:
        code.writeline("pass")


"""

_CALLED: Final = """\
        device = device or V.graph.get_current_device_or_throw()
        current_stream_idx ="""

_CHECK: Final = """
        name = node.get_name()
        self.writeline(f"if {name} is None: raise AssertionError('assert_finite')")"""

_FIRST: Final = "self.branches = branches"

CHANGES: Final = (
    Change(
        "the module `codegen/wrapper_fxir.py` is `codegen/wrapper_graph.py`",
        lambda torch: torch.move(f"{_INDUCTOR}/codegen/wrapper_fxir.py", "wrapper_graph.py"),
        ("wrapper_fxir",),
    ),
    _rename("GPU_ALIGN_BYTES", "DEVICE_ALIGN_BYTES", "the constant"),
    _rename("_InProcessFxCompile", "_LocalFxCompile", "the class"),
    _rename("_COMPILER_FNS", "_BACKENDS_BY_NAME", "the table of backends"),
    _rename("create_synthetic_base_metadata", "synthetic_bases", "the function"),
    _rename("mark_buffer_mutated", "note_mutation", "the method"),
    _rename("_generate", "_generate_module", "the method", f"{_INDUCTOR}/codegen"),
    _rename("codegen_switch", "codegen_branches", "the method"),
    _rename("codegen_while_loop", "codegen_loop", "the method"),
    _rename("get_graph_outputs", "outputs_of_graph", "the method"),
    _rename("generate_kernel_call", "write_kernel_call", "the method", _INDUCTOR),
    _replace(
        "`codegen_switch` is given one more argument",
        ("codegen_switch",),
        (_IR, "wrapper.codegen_switch(self)", "wrapper.codegen_switch(self, {})"),
        (_WRAPPER, "def codegen_switch(self, node)", "def codegen_switch(self, node, hints)"),
    ),
    _replace(
        "`CppScheduling.define_kernel` is given one more argument",
        ("define_kernel",),
        (
            _CPP,
            "src_code, nodes, kernel_args=None)",
            "src_code, nodes, kernel_args=None, *, tags=())",
        ),
        (
            *(_CPP, "src_code, self.kernel_group.scheduled_nodes\n"),
            'src_code, self.kernel_group.scheduled_nodes, tags=("fused",)\n',
        ),
    ),
    _replace(
        "`CppScheduling.define_kernel` returns the kernel's name and its source",
        ("kernel", "define_kernel"),
        (
            _CPP,
            "return kernel_name\n\n    def flush",
            "return kernel_name, src_code\n\n    def flush",
        ),
        (_CPP, "kernel_name = self.define_kernel(", "kernel_name, _ = self.define_kernel("),
    ),
    _replace(
        "`_generate` returns three things",
        ("unpack", "_generate"),
        (
            _WRAPPER,
            "return self._generate(is_inference)",
            "text, rest, _ = self._generate(is_inference)\n            return text, rest",
        ),
        (
            _WRAPPER,
            "self.kernel_declarations.getvaluewithlinemap(),\n        )",
            "self.kernel_declarations.getvaluewithlinemap(),\n            {},\n        )",
        ),
    ),
    _rename("AllocateLine", "AllocateBufferLine", "the line", _INDUCTOR),
    _replace(
        "a new line `PrefetchLine` before each kernel call",
        ("PrefetchLine",),
        (
            _WRAPPER,
            "@dataclasses.dataclass\nclass AssertAlignmentLine(",
            _NEW_LINE + "@dataclasses.dataclass\nclass AssertAlignmentLine(",
        ),
        (_WRAPPER, _CALLED, "        self.writeline(PrefetchLine(self, kernel_name))\n" + _CALLED),
    ),
    _replace(
        "a new field of `AllocateLine`, `zeroed`, which is true",
        ("zeroed",),
        (
            *(_WRAPPER, "    node: BufferLike\n    comm_buffer: bool = False\n"),
            "    node: BufferLike\n    comm_buffer: bool = False\n    zeroed: bool = False\n",
        ),
        (_WRAPPER, "AllocateLine(self, buffer))", "AllocateLine(self, buffer, zeroed=True))"),
    ),
    _rename("call_args", "launch_args", "the field of `KernelCallLine`", _INDUCTOR),
    _rename("reused_as", "successor", "the field of `ReuseLine`", _INDUCTOR),
    _rename("op_overload", "overload", "the attribute of library calls", _INDUCTOR),
    _rename("is_cond", "is_boolean", "the attribute of `ir.Switch`", _INDUCTOR),
    _replace(
        "a new text `assert_finite` after each library call",
        ("assert_finite",),
        (
            *(_WRAPPER, "self.writeline(ExternKernelOutLine(self, node))"),
            "self.writeline(ExternKernelOutLine(self, node))" + _CHECK,
        ),
    ),
    _rename("size_asserts", "layout_asserts", "the setting", _INDUCTOR),
    _replace(
        "a new setting `wrapper_prologue`, which is on",
        (),
        (f"{_INDUCTOR}/config.py", "size_asserts = ", "wrapper_prologue = True\nsize_asserts = "),
    ),
    _rename("alias_of_input", "view_of_input", "the value of `OutputType`"),
    _rename("UNBACKED_FLOAT", "DATA_FLOAT", "the value of `SymT`"),
    _rename(
        "num_mutated_inp_runtime_indices",
        "num_written_inputs",
        "the field of `ViewAndMutationMeta`",
    ),
    _rename("inplace_buffers", "inout_buffers", "the field of `KernelArgs`", _INDUCTOR),
    _rename("PythonMod", "FloorMod", "the function of sizes"),
    _replace(
        "`register_backend_for_device` takes passes by keyword",
        ("register_backend_for_device",),
        (
            *(
                f"{_INDUCTOR}/codegen/common.py",
                "    device_custom_pass: CustomGraphModulePass | None",
            ),
            "    *,\n    device_custom_pass: CustomGraphModulePass | None",
        ),
    ),
    _rename("inner_compile", "graph_compiler", "the parameter of `compile_fx`", _INDUCTOR),
    _replace(
        "the branches of `ir.Switch` stand in another order: the last one first",
        ("branches",),
        (_WRAPPER, "in enumerate(node.branches):", "in enumerate(node.branches[::-1]):"),
        (
            _IR,
            f"{_FIRST}\n        self.operands = operands\n        self.is_cond",
            f"{_FIRST}[::-1]\n        self.operands = operands\n        self.is_cond",
        ),
    ),
    Change(
        "the C function `aoti_torch_empty_strided` is `aoti_torch_new_strided`",
        _rename_c_function,
        ("aoti_torch_empty_strided",),
    ),
)
