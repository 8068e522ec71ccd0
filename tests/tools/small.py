"""A small torch, a small package that relies on it, and edits whose effects are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

TORCH: Final = {
    "torch/__init__.py": "from torch import _C as _C\n",
    "torch/version.py": "__version__ = '9.1.0'\n",
    "torch/_C/__init__.pyi": "def _stubbed(x: int) -> int: ...\n",
    "torch/_inductor/__init__.py": "",
    "torch/_inductor/config.py": (
        "import os\nsize_asserts = os.environ.get('A') == '1'\nunused = 3\n"
        "class cpp:\n    simdlen: int | None = None\n    march = 'native'\n"
        "freezing: bool = False\n"
    ),
    "torch/_inductor/exc.py": "class InductorError(RuntimeError):\n    inner: str = ''\n",
    "torch/_inductor/ir.py": (
        "from torch._inductor import config\n"
        "class Node:\n"
        "    def get_name(self, short=False): return self.name\n"
        "    def __init__(self, name): self.name = name\n"
        "class Choice(Node):\n"
        "    branches = ()\n"
        "    def codegen(self, wrapper):\n"
        "        wrapper.writeline(f'choose({self.name}, {len(self.branches)})')\n"
        "        wrapper.writeline(f'done({self.name})')\n"
        "class Scalar(Node):\n    msg = ''\n    limit = 0\n"
    ),
    "torch/_inductor/virtualized.py": (
        "from torch._inductor.graph import Graph\n"
        "class _V:\n    @property\n    def graph(self) -> Graph: return Graph()\n"
        "V = _V()\n"
    ),
    "torch/_inductor/graph.py": (
        "class Graph:\n"
        "    def __init__(self): self.sizes: dict[str, int] = {}\n"
        "    def get_dtype(self, name): return name\n"
    ),
    "torch/_inductor/kernel.py": (
        "from torch._inductor.select import ExternKernelChoice\nimport torch\n"
        "mm = ExternKernelChoice(torch.mm, 'at::mm_out')\n"
    ),
    "torch/_inductor/select.py": "class ExternKernelChoice:\n    pass\n",
    "torch/_inductor/hooks.py": (
        "def init_registration(mod, depth=0):\n    return getattr(mod, '_hook_of_old', None)\n"
        "def compile_fx(gm, inputs, inner=None): ...\n"
        "class Scheduling:\n    def define(self, name, code): ...\n    def spare(self, x): ...\n"
    ),
    "torch/_inductor/ops.py": (
        "class Ops:\n    def load(self, name): ...\n    def store(self, name, value): ...\n"
        "class DefaultOps(Ops):\n    def __getattr__(self, name): return print\n"
    ),
    "torch/_inductor/codegen/__init__.py": "",
    "torch/_inductor/codegen/wrapper.py": (
        "import dataclasses\nfrom torch._inductor import ir\n"
        "class WrapperLine: pass\n"
        "@dataclasses.dataclass\nclass AllocLine(WrapperLine):\n"
        "    node: ir.Node\n    zeroed: bool = False\n"
        "@dataclasses.dataclass\nclass CallLine(WrapperLine):\n"
        "    kernel_name: str\n    args: tuple = ()\n"
        "class PythonWrapperCodegen:\n"
        "    def __init__(self): self.lines = []\n"
        "    def writeline(self, line): self.lines.append(line)\n"
        "    def define_kernel(self, name, body, gpu=True):\n"
        "        self.writeline(f'{name} = {body}')\n"
        "    def codegen_choice(self, choice):\n        self.writeline(f'if {choice}:')\n"
        "    def _generate(self, is_inference): ...\n"
    ),
    "torch/_higher_order_ops/__init__.py": "",
    "torch/_ops.py": "class HigherOrderOperator:\n    def __init__(self, name): ...\n",
    "torch/_higher_order_ops/cond.py": (
        "from torch._ops import HigherOrderOperator\n"
        "class CondOp(HigherOrderOperator):\n"
        "    def __init__(self): super().__init__('cond')\n"
    ),
    "torch/include/torch/csrc/inductor/aoti_torch/c/shim.h": (
        "#pragma once\n// int not_this(int x);\n"
        '#define AOTI_TORCH_EXPORT __attribute__((visibility("default")))\n'
        "AOTI_TORCH_EXPORT AOTITorchError aoti_torch_item_bool(AtenTensorHandle t, bool* ret);\n"
        "AOTI_TORCH_EXPORT AOTITorchError aoti_torch_clone(\n"
        "    AtenTensorHandle self,  // what is cloned\n    AtenTensorHandle* ret);\n"
        "AOTI_TORCH_EXPORT AOTITorchError aoti_torch_unused(int32_t self);\n"
    ),
    "torch/include/ATen/core/stack.h": "#include <c10/core/Device.h>\nclass Stack;\n",
    "torch/include/c10/core/Device.h": "namespace c10 { struct Device {}; }\n",
}

OURS: Final = {
    "wrapper_ir/__init__.py": "",
    "wrapper_ir/fast.py": (
        "import torch\n_fast = getattr(torch._C, '_stubbed', None)\n"
        "def go():\n    return _fast(1)\n"
    ),
    "wrapper_ir/front/__init__.py": "from wrapper_ir.front import compat\n",
    "wrapper_ir/front/compat.py": (
        "try:\n"
        "    from torch._inductor import config as inductor_config, ir\n"
        "    from torch._inductor.codegen.wrapper import PythonWrapperCodegen\n"
        "    from torch._inductor.exc import InductorError\n"
        "    from torch._inductor.hooks import compile_fx\n"
        "    from torch._inductor.virtualized import V\n"
        "except ImportError as error:\n    raise RuntimeError from error\n"
    ),
    "wrapper_ir/front/wrapper.py": (
        "import importlib\n"
        "from wrapper_ir.front.compat import PythonWrapperCodegen, V, compile_fx, inductor_config\n"
        "class _Notes:\n"
        "    def define_kernel(self, name, body, *args):\n"
        "        stock = super()\n        return stock.define_kernel(name, body, *args)\n"
        "    def codegen_choice(self, choice):\n        super().codegen_choice(choice)\n"
        "class Noting(_Notes, PythonWrapperCodegen):\n"
        "    def _generate(self, is_inference):\n"
        "        return len(self.lines), V.graph.sizes, V.graph.get_dtype('x')\n"
        "def run(gm):\n"
        "    with inductor_config.patch({'cpp.simdlen': 1}, freezing=True):\n"
        "        importlib.import_module('torch._inductor.hooks').init_registration(None)\n"
        "        return compile_fx(gm, [], inner=None)\n"
        "def noting():\n"
        "    stock = importlib.import_module('torch._inductor.hooks').Scheduling\n"
        "    return type('Both', (_Scheduling, stock), {})\n"
        "class _Scheduling:\n"
        "    def define(self, name, code):\n        return super().define(name, code)\n"
    ),
    "wrapper_ir/front/lines.py": (
        "from wrapper_ir.front.compat import ir, inductor_config\n"
        "class Converter:\n"
        "    def _alloc(self, entry):\n        return name_of(entry.line.node), entry.line.zeroed\n"
        "    def _call(self, entry):\n        return entry.line.kernel_name\n"
        "    def _scalar(self, node):\n        return node.msg\n"
        "    def text(self, text, node):\n        return text == f'done({node})'\n"
        "HANDLERS = {'AllocLine': Converter._alloc, 'CallLine': Converter._call}\n"
        "NODES = {'Scalar': Converter._scalar}\n"
        "def name_of(node):\n    return node.get_name()\n"
        "def branches(node):\n"
        "    is_choice = isinstance(node, ir.Choice)\n"
        "    return node.branches if inductor_config.size_asserts else is_choice\n"
    ),
    "wrapper_ir/front/ops.py": (
        "from torch._inductor.ops import DefaultOps\n"
        "class Zeros(DefaultOps):\n    def load(self, name): return 0\n"
    ),
    "wrapper_ir/native/own.cpp": (
        "#include <ATen/core/stack.h>\n"
        "#define ITEM(T) aoti_torch_item_##T(tensor, &found)\n"
        "// Not aoti_torch_unused.\n"
        "void own(c10::Device device) { aoti_torch_clone(a, &b); ITEM(bool); }\n"
    ),
}


@dataclass(frozen=True)
class Edit:
    """A change of the small torch, and the findings that it must bring.

    Attributes:
        file: Which file; one that is not there is made.
        old: What is replaced; empty for what comes at the end.
        new: What takes its place.
        found: Severity, kind, end of the name, and a part of what is said.
    """

    file: str
    old: str
    new: str
    found: tuple[tuple[str, str, str, str], ...]


def _edit(file: str, old: str, new: str, *found: str) -> Edit:
    parts = [line.split(" | ") for line in found]
    return Edit(f"torch/{file}", old, new, tuple((a, b, c, d) for a, b, c, d in parts))


_WRAPPER = "_inductor/codegen/wrapper.py"
_SHIM = "include/torch/csrc/inductor/aoti_torch/c/shim.h"

#: Each leaves the others' texts alone, so any of them go together.
EDITS: Final = (
    _edit("_inductor/exc.py", "class InductorError", "class InductorErrors",
          "breaks | name | exc.InductorError | perhaps InductorErrors"),
    _edit("_inductor/codegen/wrapper.py", "class CallLine", "class KernelLine",
          "breaks | class | CallLine | perhaps KernelLine",
          "new | line class | KernelLine | for CallLine"),
    _edit(_WRAPPER, "zeroed: bool = False", "zeroed: bool = True",
          "changed | class | AllocLine | zeroed: bool=False -> zeroed: bool=True"),
    _edit(_WRAPPER, "    node: ir.Node\n", "    node: ir.Node\n    pool: int = 0\n",
          "changed | class | AllocLine | +pool: int=0"),
    _edit(_WRAPPER, "name, body, gpu=True", "name, body, metadata, gpu=True",
          "breaks | override | PythonWrapperCodegen.define_kernel | +metadata"),
    _edit(_WRAPPER, "def codegen_choice", "def codegen_switch",
          "breaks | override | PythonWrapperCodegen.codegen_choice | perhaps codegen_switch",
          "new | raw text | PythonWrapperCodegen.codegen_switch | has no form"),
    _edit("_inductor/hooks.py", "gm, inputs, inner=None", "gm, extra, inputs, inner=None",
          "breaks | name | hooks.compile_fx | +extra",
          "breaks | argument | hooks.compile_fx.1 | inputs -> extra"),
    _edit("_inductor/hooks.py", "depth=0", "depth=1",
          "changed | name | hooks.init_registration | depth=0 -> depth=1"),
    _edit("_inductor/hooks.py", "'_hook_of_old', None)",
          "'_hook_of_old', None) or getattr(mod, '_hook_of_new')",
          "new | hook | _hook_of_new in torch._inductor.hooks.init_registration | has no form"),
    _edit("_inductor/hooks.py", "def define(self, name, code)", "def define(self, code)",
          "breaks | override | Scheduling.define | -name",
          "breaks | argument | Scheduling.define.0 | name -> code",
          "breaks | argument | Scheduling.define.1 | is gone"),
    _edit("_inductor/config.py", "simdlen: int | None = None", "simdlen: int | None = 8",
          "changed | name | cpp.simdlen | default: None -> 8"),
    _edit("_inductor/config.py", "freezing: bool", "freeze: bool",
          "breaks | name | config.freezing | perhaps freeze",
          "new | setting | config.freeze | is there"),
    _edit("_inductor/graph.py", "get_dtype", "dtype_of",
          "breaks | name | graph.get_dtype | is gone"),
    _edit("_inductor/graph.py", "self.sizes", "self.all_sizes",
          "breaks | name | graph.sizes | perhaps all_sizes"),
    _edit("_inductor/ir.py", "branches", "options",
          "breaks | attribute | branches | is gone"),
    _edit("_inductor/ir.py", "    msg = ''\n", "",
          "breaks | member | Scalar.msg | is gone"),
    _edit("_inductor/ir.py", "f'done({self.name})'", "f'finished({self.name})'",
          "breaks | text | done({}) | is gone",
          "new | raw text | 'finished({})' by _inductor.ir.Choice.codegen | has no form"),
    _edit("_inductor/ir.py", "def get_name(self, short=False)", "def get_name(self)",
          "changed | member | Node.get_name | -short"),
    _edit("_inductor/ops.py", "def load", "def read",
          "breaks | override | DefaultOps.load | is gone"),
    _edit("_inductor/kernel.py", "", "bmm = ExternKernelChoice(torch.bmm, None, name='our_bmm')\n",
          "new | extern kernel | our_bmm | has no form"),
    _edit("_higher_order_ops/switch.py", "",
          "from torch._ops import HigherOrderOperator\nclass SwitchOp(HigherOrderOperator):\n"
          "    def __init__(self): super().__init__('switch')\n",
          "new | higher-order op | switch | has no form"),
    _edit("_C/__init__.pyi", "_stubbed", "_renamed",
          "breaks | name | torch._C._stubbed | is gone"),
    _edit(_SHIM, "bool* ret", "int32_t* ret",
          "breaks | C function | aoti_torch_item_bool | bool* -> AtenTensorHandle, int32_t*"),
    _edit(_SHIM, "aoti_torch_clone(", "aoti_torch_clone_v2(",
          "breaks | C function | aoti_torch_clone | perhaps aoti_torch_clone_v2"),
    _edit("include/c10/core/Device.h", "struct Device", "struct DeviceOf",
          "breaks | C++ name | Device | is gone"),
)  # fmt: skip

#: What nothing of ours relies on.
UNRELATED: Final = (
    _edit("_inductor/hooks.py", "", "def other(x): ...\n"),
    _edit("_inductor/hooks.py", "def spare(self, x)", "def spare(self, y, z)"),
    _edit("_inductor/config.py", "unused = 3", "unused = 4"),
    _edit("_inductor/ir.py", "    limit = 0\n", "    bound = 0\n"),
    _edit("_inductor/ir.py", "from torch", "# A comment, which moves every line.\nfrom torch"),
    _edit("_inductor/ops.py", "def store", "def put"),
    _edit("_inductor/exc.py", "", "class Another(Exception): ...\n"),
    _edit(_SHIM, "int32_t self", "int64_t self"),
    _edit(_SHIM, "AtenTensorHandle self,  // what is cloned", "AtenTensorHandle self,"),
    _edit("include/c10/core/Device.h", "", "namespace c10 { struct Stream {}; }\n"),
)


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files below a folder, and return it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def edited(edits: tuple[Edit, ...]) -> dict[str, str]:
    """Return the small torch with edits made."""
    files = dict(TORCH)
    for edit in edits:
        text = files.get(edit.file, "")
        assert edit.old in text, edit
        files[edit.file] = text.replace(edit.old, edit.new) if edit.old else text + edit.new
    return files
