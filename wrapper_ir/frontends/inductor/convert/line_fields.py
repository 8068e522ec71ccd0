"""The fields of Inductor's lines that are known: those of the newest release that is supported.

A line of a newer torch that has set another one says something that a program would not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELDS: Final[Mapping[str, str]] = {
    "AllocateLine": "node comm_buffer",
    "AssertAlignmentLine": "name alignment op_name",
    "AssertSizeStrideLine": "name size stride op_name dtype",
    "CommentLine": "line",
    "DynamicScalarLine": "node",
    "EnterCudaMemPoolContextLine": "mempool_index device_index",
    "EnterCudaStreamContextLine": "stream_idx",
    "EnterDeviceContextManagerLine": "device_idx last_seen_device_guard_index",
    "EnterDeviceContextManagerWithStreamInfoLine": (
        "device_idx last_seen_device_guard_index num_streams stream_idx_to_user_obj_idx "
        "setup_stream_cache"
    ),
    "ExitDeviceContextManagerWithStreamInfoLine": "num_streams",
    "ExternKernelAllocLine": "node",
    "ExternKernelMultiOutLine": "node",
    "ExternKernelOutLine": "node",
    "FreeIfNotReusedLine": "node is_reused comm_buffer",
    "FreeLine": "node",
    "GroupedAssertSizeStrideLine": "asserts op_name",
    "IndexPutFallbackLine": "node indices",
    "KernelCallLine": (
        "kernel_name call_args raw_keys raw_args arg_types triton triton_meta inductor_meta device "
        "graph_name original_fxnode_name current_stream_idx"
    ),
    "KernelDefinitionLine": "kernel_name kernel_body metadata gpu cpp_definition",
    "MultiOutputLine": "result_name arg_name indices",
    "ReinterpretLine": "node reused_as layout",
    "ReuseLine": "node reused_as delete_old comm_buffer",
    "ScatterFallbackLine": "node",
    "SymbolicCallArgLine": "arg graph in_profile_scope",
    "UnbackedSymbolDefsLine": "output_name outputs unbacked_bindings",
}


def known_fields(kind: str) -> frozenset[str] | None:
    """Return the names of the known fields of a class of lines, or None for an unknown class."""
    fields = _FIELDS.get(kind)
    return None if fields is None else frozenset(("wrapper", *fields.split()))
