"""Kernel definitions and library ops at the head of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import wrapper_ir.lines as ir
from wrapper_ir.analysis.ops import is_method, schema_of
from wrapper_ir.emitters.kernel_types import parameter_types
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.context import Context, caller
from wrapper_ir.emitters.python.literals import Node, assignment, call, keyword, statement, tuple_of
from wrapper_ir.toolchain.manifest import OWN_OPS

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


# Calls of library ops: by torch's own function if it is the op, else through ``torch.ops``.
#
# ``torch.addmm`` and ``torch.ops.aten.addmm.out`` run the same code, but the former parses its
# arguments in generated C++ and costs about 1 us less. A function of ``torch`` picks an overload by
# its arguments, however, so the list has only ops for which it calls exactly the overload of that
# name with exactly the given arguments; a test verifies each. Factory functions are not listed,
# because ``torch.set_default_device`` changes their behaviour.

SAME_AS_TORCH: Final = frozenset("""
    abs acos acos.out add.Tensor add.out addbmm addbmm.out addcdiv addcdiv.out addcmul addcmul.out
    addmm addmm.out addmv addmv.out addr addr.out all all.dim amax amax.out amin amin.out aminmax
    any any.dim argmax argmin baddbmm baddbmm.out bincount bmm bmm.out bucketize.Tensor cat cat.out
    ceil cholesky_inverse cholesky_solve clamp_max clamp_min complex constant_pad_nd conv_tbc
    convolution cummax cummin cumprod cumprod.out cumsum cumsum.out diag_embed div.Tensor dot
    embedding eq.Scalar eq.Tensor erf exp flip floor frexp.Tensor gather gather.out grid_sampler_2d
    grid_sampler_3d histc index_add index_copy index_fill.int_Scalar index_fill.int_Tensor
    index_reduce index_select index_select.out kthvalue log logcumsumexp logcumsumexp.out logsumexp
    lu_unpack masked_fill.Scalar masked_scatter masked_select max max.dim maximum mean mean.dim
    median median.dim min min.dim minimum mm mm.out mode mul.Tensor mv mv.out nanmedian
    nanmedian.dim native_batch_norm native_dropout native_group_norm native_layer_norm neg nonzero
    nonzero_static ormqr pixel_shuffle pixel_unshuffle polar prod prod.dim_int reciprocal relu
    repeat_interleave.Tensor roll rot90 rsqrt scatter.src scatter.value scatter_add
    scatter_reduce.two searchsorted.Tensor segment_reduce select_scatter sigmoid sin slice_scatter
    sort sort.stable sqrt stack sub.Tensor sum sum.dim_IntList take tanh topk trace
    triangular_solve tril triu unsafe_split.Tensor unsafe_split_with_sizes vdot view_as_complex
    view_as_real where.self
    _adaptive_avg_pool2d _adaptive_avg_pool3d _embedding_bag _embedding_bag_forward_only _fft_c2c
    _fft_c2r _fft_r2c _fused_moving_avg_obs_fq_helper _int_mm _linalg_det _linalg_eigh
    _linalg_slogdet _linalg_solve_ex _linalg_svd _log_softmax _native_batch_norm_legit
    _native_batch_norm_legit.no_stats _native_batch_norm_legit_no_training
    _native_multi_head_attention _safe_softmax _scaled_dot_product_flash_attention_for_cpu
    _scaled_mm _softmax _transformer_encoder_layer_fwd _trilinear _unique2
    _weight_int4pack_mm_for_cpu _weight_int8pack_mm _weight_norm_interface
    """.split())  # noqa: SIM905 - one name a line would take the page
"""Ops of ``aten`` that ``torch.<name>`` calls, named without their namespace."""


def torch_function(op: str) -> str | None:
    """Return the function of ``torch`` that is the op: ``addmm`` for ``aten::addmm.out``."""
    namespace, _, name = op.partition("::")
    return name.partition(".")[0] if namespace == "aten" and name in SAME_AS_TORCH else None


def torch_op(op: str) -> str:
    """Return the op in torch's registry: ``torch.ops.aten.addmm.out``."""
    namespace, _, name = op.partition("::")
    base, _, overload = name.partition(".")
    return f"torch.ops.{namespace}.{base}.{overload or 'default'}"


def has_plain_arguments(line: ir.ExternKernel, schema: ir.OpSchema) -> bool:
    """Return whether each argument has its parameter's kind, and no positional one is named.

    Torch's functions choose the overload by the kinds of arguments, and name some parameters
    differently from the schema (``input`` for ``self``).
    """
    positional = schema.positional
    if len(line.args) > len(positional):
        return False
    pairs = list(zip(line.args, positional, strict=False))
    for name, arg in line.kwargs:
        param = schema.arg(name)
        if param is None or not param.keyword_only:
            return False
        pairs.append((arg, param))
    return all(_fits(arg, param) for arg, param in pairs)


def _fits(arg: ir.Arg, param: ir.SchemaArg) -> bool:
    if isinstance(arg, ir.NoneArg):
        return param.type.is_optional
    if isinstance(arg, ir.ListArg):
        return param.type.is_list
    return isinstance(arg, ir.BufferArg) == (param.type.is_tensor and not param.type.is_list)


class Section(Protocol):
    """A part of the head of the file, with the definitions of one kind."""

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[type]

    def __init__(self, context: Context) -> None: ...

    def add(self, line: ir.KernelDefinition) -> None:
        """Add a definition.

        Raises:
            ValueError: It cannot be rendered; the message says why.
        """

    def finish(self) -> None:
        """Write the code that loads the kernels."""


class CollectedSection:
    """Kernels that are added to collections one by one, and compiled when the file is loaded."""

    name: ClassVar[str]
    collection: ClassVar[str]

    def __init__(self, context: Context) -> None:
        self.context = context
        self._collections: dict[Hashable, tuple[str, list[str]]] = {}

    def collect(self, shared: Hashable, made: Node, name: str, args: Iterable[Node]) -> None:
        """Add a kernel to the collection for a key; ``made`` creates a missing collection."""
        if shared not in self._collections:
            fresh = self.context.names.fresh
            collection = fresh(self.collection) if self._collections else self.collection
            self.context.define(self.name, collection, made)
            self._collections[shared] = (collection, [])
        collection, members = self._collections[shared]
        members.append(name)
        added = call(f"{collection}.add", literals.string(name), *args)
        for text in statement(added, 0):
            self.context.section(self.name).verbatim(text)

    def finish(self) -> None:
        """Write the code that loads the kernels."""
        writer = self.context.section(self.name)
        for collection, members in self._collections.values():
            writer.lines(*assignment(members, call(f"{collection}.load"), 0, unpack=True))


class CppSection(CollectedSection):
    """The C++ kernels. A collection holds those with the same compiler flags."""

    name: ClassVar[str] = "kernels"
    title: ClassVar[str] = "Compiled kernels."
    source: ClassVar[type] = ir.CppKernel
    collection: ClassVar[str] = "kernels"

    def add(self, line: ir.KernelDefinition) -> None:
        """Add a kernel for each kind of device that calls it; see :meth:`Section.add`."""
        source = line.source
        assert isinstance(source, ir.CppKernel)
        types = [literals.string(spelled) for spelled in parameter_types(line)]
        callers = {caller(device): None for device in self.context.launched_on(line.name)}
        for device in callers or (ir.CPU,):
            args: list[Node] = [tuple_of(types), self.context.source(line)]
            if source.entry != "kernel":
                args.append(keyword("entry", literals.string(source.entry)))
            name = self.context.kernel(line.name, device)
            made = self._collection(source, device)
            self.collect((device, source.isa, source.flags), made, name, args)

    def _collection(self, source: ir.CppKernel, device: ir.Device) -> Node:
        """Return the call that creates a collection for these flags on a kind of device."""
        collected_by, options = device.kind.collection
        args: list[Node] = [literals.string(source.isa)] if source.isa else []
        if source.flags:
            flags = tuple_of([literals.string(flag) for flag in source.flags])
            args.append(keyword("extra_flags", flags))
        args += [keyword(each, literals.string(options[each])) for each in options]
        return call(self.context.imported(collected_by), *args)


class OpSection:
    """The library ops, each looked up once."""

    name: ClassVar[str] = "ops"
    title: ClassVar[str] = "Library ops."
    source: ClassVar[type] = ir.TorchOp

    def __init__(self, context: Context) -> None:
        self._context = context
        plain: dict[str, bool] = {}
        for _, line in ir.walk(context.program):
            if isinstance(line, ir.ExternKernel):
                fits = has_plain_arguments(line, schema_of(context.program, line.op))
                plain[line.op] = plain.get(line.op, True) and fits
        self._plain = plain

    def add(self, line: ir.KernelDefinition) -> None:
        """Add an op, unless nothing calls it."""
        if line.name not in self._plain or is_method(self._context.program, line.name):
            return
        name = self._context.names["op", line.name]
        self._context.calls_own_ops |= line.name.startswith(OWN_OPS)
        function = torch_function(line.name) if self._plain[line.name] else None
        registered = torch_op(line.name)
        if function is None:
            value: Node = registered
        elif function.startswith("_"):
            # A private function of torch, which may disappear.
            value = call("getattr", "torch", literals.string(function), registered)
        else:
            value = f"torch.{function}"
        self._context.define("ops", name, value)

    def finish(self) -> None:
        """Do nothing: ops need no loading."""
