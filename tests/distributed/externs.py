"""Declarations of the ops that programs of ranks call, as every release of torch takes them."""

from __future__ import annotations

from typing import Final

_TABLE: Final = """
aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
aten::cat(Tensor[] tensors, int dim=0) -> Tensor
aten::neg(Tensor self) -> Tensor
aten::relu_(Tensor(a!) self) -> Tensor(a!)
aten::zero_(Tensor(a!) self) -> Tensor(a!)
_c10d_functional::all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor
_c10d_functional::all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]
_c10d_functional::all_gather_into_tensor_out(Tensor input, int group_size, str group_name, *, Tensor(a!) out) -> Tensor(a!)
_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor
_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)
_c10d_functional::all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]
_c10d_functional::all_reduce_coalesced_(Tensor[](a!) inputs, str reduce_op, str group_name) -> Tensor[](a!)
_c10d_functional::all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) -> Tensor
_c10d_functional::batch_p2p_ops(str[] op_list, int[] peer_list, int[] tag_list, Tensor[] tensors, str group_name) -> Tensor[]
_c10d_functional::broadcast(Tensor input, int src, str group_name) -> Tensor
_c10d_functional::broadcast_(Tensor(a!) input, int src, str group_name) -> Tensor(a!)
_c10d_functional::irecv(Tensor tensor, int src, int tag, str group_name) -> Tensor
_c10d_functional::isend(Tensor tensor, int dst, int tag, str group_name) -> Tensor
_c10d_functional::reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor
_c10d_functional::wait_tensor(Tensor tensor) -> Tensor
symm_mem::fused_matmul_reduce_scatter(Tensor A, Tensor B, str reduce_op, int scatter_dim, str group_name) -> Tensor
symm_mem::memset32_(Tensor(a!) input, int offset, int val, int count) -> Tensor(a!)
symm_mem::one_shot_all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor
"""  # noqa: E501 - a schema is one line

SCHEMAS: Final = {row.partition("(")[0]: row for row in _TABLE.split("\n") if row}


def externs(text: str) -> list[str]:
    """Return the declarations of the ops that lines call."""
    return [f"extern {schema}" for op, schema in SCHEMAS.items() if f"{op}(" in text]
