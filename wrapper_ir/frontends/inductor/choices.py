"""Inductor's choices between ways that are both right, which a capture makes without a promise.

Lowering and scheduling ask questions about sizes: "are there more than 4096 columns?". The example
answers, and torch records the answer as a guard. Under ``torch.compile`` another answer compiles
again. A captured program has nothing to fall back on, so each guard becomes a check, and the check
refuses sizes that the export allows, although most such questions only choose the faster of two
ways.

``_FREE`` lists the functions of torch that ask such questions, and which answers are no promise of
theirs, with the reason. While a program is captured, the example still answers these questions, but
nothing is recorded: no guard, and no narrower range that something else might rely on later. Every
other guard stays, and becomes a check. So a function that a release of torch lacks, or has under
another name, costs sizes, never right results.
"""

from __future__ import annotations

import enum
import sys
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import sympy

from wrapper_ir.frontends.inductor.compat import uninteresting_files
from wrapper_ir.frontends.inductor.session import current_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType


class Answers(enum.Enum):
    """Answers to a function's questions that its code does not rely on."""

    ANY = enum.auto()  #: both ways are right for all sizes
    DIFFERENT = enum.auto()  #: that two numbers differ
    LARGE = enum.auto()  #: that two numbers differ, or that a size is not 0 or 1
    ORDER = enum.auto()  #: all but that two numbers are equal
    SMALL = enum.auto()  #: that a number is below the threshold of a special way, or not equal
    UNKNOWN = enum.auto()  #: none, but whatever is not known for all sizes may count as no


#: Forms of the conditions that a guard may record for an answer that is no promise.
_FORMS: Final[Mapping[Answers, tuple[type[sympy.Basic], ...]]] = {
    Answers.ANY: (sympy.Basic,),
    Answers.DIFFERENT: (sympy.Ne,),
    Answers.LARGE: (sympy.Ne, sympy.Gt, sympy.Ge),
    Answers.ORDER: (sympy.Ne, sympy.Gt, sympy.Ge, sympy.Lt, sympy.Le),
    Answers.SMALL: (sympy.Ne, sympy.Lt, sympy.Le),
}

#: Functions by module and qualified name. Torch 2.13 to 2.15 have them all.
_FREE: Final[Mapping[tuple[str, str], Answers]] = {
    # Sums of more than 4096 numbers keep partial sums, for the precision.
    ("torch._inductor.codegen.cpp", "CppKernel.need_use_acc_helper"): Answers.ANY,
    # Small products become a multiplication and a sum.
    ("torch._inductor.decomposition", "mm"): Answers.ANY,
    ("torch._inductor.decomposition", "addmm"): Answers.ANY,
    # Few candidates are compared one by one, many are sorted.
    ("torch._decomp.decompositions", "isin"): Answers.ANY,
    # The memory format of a convolution's result, which the program asserts.
    ("torch._subclasses.fake_impls", "conv"): Answers.ANY,
    # The order in which a tensor's strides are compared with those of a dense one; it is dense only
    # if they are found equal.
    ("torch._prims_common", "K.__lt__"): Answers.ANY,
    # The order of strides by size, for layouts and loops that are right in any order.
    ("torch._inductor.utils", "argsort_sym"): Answers.ANY,
    # Sorting with small indices needs a bound on the size that is known for all sizes.
    ("torch._inductor.lowering", "sort_stable"): Answers.UNKNOWN,
    # A view or an operation that changes nothing is left out if the sizes are equal.
    ("torch._inductor.fx_passes.joint_graph", "definitely_equal"): Answers.UNKNOWN,
    ("torch._inductor.fx_passes.joint_graph", "remove_no_ops"): Answers.UNKNOWN,
    # Reductions of rows and of columns are fused if there are enough of them.
    ("torch._inductor.scheduler", "MixOrderReduction.can_fuse"): Answers.SMALL,
    # Strides that are not in order are put in order.
    ("torch._inductor.ir", "Layout._stride_expr_ge_or_false"): Answers.SMALL,
    ("torch._inductor.ir", "Layout.is_stride_ordered"): Answers.DIFFERENT,
    # The order in which a view's sizes are matched; the products of those matched must be equal.
    ("torch._inductor.ir", "View._dynamic_reshape_indexer"): Answers.ORDER,
    # Code for any size is right for 0 and 1, too, as torch.export assumes of the sizes of inputs.
    ("torch._inductor.sizevars", "SizeVarAllocator.is_size_one_or_false"): Answers.DIFFERENT,
    ("torch._inductor.decomposition", "cat"): Answers.DIFFERENT,
    ("torch._subclasses.fake_impls", "infer_size"): Answers.DIFFERENT,
    ("torch._prims_common", "is_contiguous"): Answers.LARGE,
    ("torch._prims_common", "check_contiguous_sizes_strides"): Answers.DIFFERENT,
    ("torch._prims_common", "_is_non_overlapping_and_dense_or_false"): Answers.LARGE,
}

#: Modules that pass questions on.
_BETWEEN: Final = (
    *("torch", "torch._inductor.sizevars", "torch.fx.experimental.recording"),
    *("torch.fx.experimental.sym_node", "torch.fx.experimental.symbolic_shapes"),
)


def with_free_choices(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``ShapeEnv.evaluate_expr`` so that captures record no guard for a free choice."""

    @wraps(stock)
    def evaluate_expr(self: Any, orig_expr: Any, *args: Any, **kwargs: Any) -> Any:
        session = current_session()
        if session is None or not session.capture:
            return stock(self, orig_expr, *args, **kwargs)
        # Torch notes where a question comes from: the first frame outside of these files.
        uninteresting_files().add(__file__)
        free = _free_answers(sys._getframe(1))
        if free is Answers.UNKNOWN and kwargs.get("fallback_value") is not None:
            known = self._maybe_evaluate_static(orig_expr)
            return kwargs["fallback_value"] if known is None else known
        if free is not None and free in _FORMS:
            with self.suppress_guards():
                answer = stock(self, orig_expr, *args, **kwargs)
            if isinstance(_condition(orig_expr, answer), _FORMS[free]):
                return answer
        return stock(self, orig_expr, *args, **kwargs)

    return evaluate_expr


def _free_answers(frame: FrameType | None) -> Answers | None:
    """Return which answers the function that asks a question does not rely on, or None."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        name = frame.f_code.co_qualname.partition(".<locals>")[0]
        free = _FREE.get((module, name))
        if free is not None or module not in _BETWEEN:
            return free
        frame = frame.f_back
    return None


def _condition(question: sympy.Basic, answer: object) -> sympy.Basic | None:
    """Return the condition that torch records for an answer; None if the answer is a number."""
    if answer in (True, sympy.true):
        return question
    return sympy.Not(question) if answer in (False, sympy.false) else None
