"""Facts of an exported program outside its graph: examples, and assumptions on sizes.

``torch.export`` records each decision that tracing based on the example's sizes
(``if x.shape[0] % 2 == 0``) as Python text about the arguments, and only that text survives saving
and loading. It is parsed here, with a small vocabulary, and never executed.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.common.expressions import REAL_FUNCTIONS, to_scalar
from wrapper_ir.frontends.inductor.errors import CaptureError, words_of
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.program import Program, SymbolInfo
from wrapper_ir.lines.symbols import BindSymbol, SizeOf
from wrapper_ir.runtime import class_of

if TYPE_CHECKING:

    from wrapper_ir.lines.expr import Scalar

Guard = tuple["Scalar", str]
"""A condition, and what to say where it does not hold."""


def shape_env_of(graph: torch.fx.Graph) -> Any:
    """Return the shape environment of a graph, or None if all sizes are static."""
    for node in graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if mode is not None and mode.shape_env is not None:
            return mode.shape_env
    return None


def example_leaves(
    exported: torch.export.ExportedProgram,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
) -> list[Any]:
    """Return the leaves of the example arguments: the given ones, or else the program's own."""
    if dynamic_shapes is not None:
        problem = "an exported program already has its dynamic shapes"
        raise CaptureError(problem=problem, hint="pass dynamic_shapes to torch.export.export")
    if not args and not kwargs:
        return pytree.tree_leaves(exported.example_inputs or ((), {}))
    try:
        # Torch's own check, whose messages speak of a call of the exported program.
        check: Any = exported._get_flat_args_with_check
        leaves, spec = check(tuple(args or ()), dict(kwargs or {}))
    except Exception as error:
        raise CaptureError(problem=f"its arguments do not match: {words_of(error)}") from error
    if spec != exported.call_spec.in_spec:
        found = f"they are {spec}, not {exported.call_spec.in_spec}"
        raise CaptureError(problem=f"its arguments do not match: {found}")
    return list(leaves)


def original_objects(program: Program, exported: torch.export.ExportedProgram) -> dict[str, str]:
    """Map the objects of a program to the model's objects, by name.

    Inductor traces with copies that it names in the order of first use, so first uses are compared.
    If their classes differ, for example because a use had no effect, the copies stay.
    """
    specs = exported.graph_signature.input_specs
    custom = [spec for spec in specs if spec.kind is InputKind.CUSTOM_OBJ]
    objects = {spec.arg.name: str(spec.target) for spec in custom}
    first = [
        objects[arg.name]
        for node in exported.graph.nodes
        for arg in node.all_input_nodes
        if arg.name in objects and node.op == "call_function"
    ]
    targets = list(dict.fromkeys(first))
    names = sorted(program.objects, key=lambda name: (len(name), name))
    classes = [program.objects[name].class_name for name in names]
    if classes != [class_of(exported.constants[name]) for name in targets]:
        return {}
    return dict(zip(names, targets, strict=True))


def exported_guards(exported: torch.export.ExportedProgram, module: Any) -> list[Guard]:
    """Return the assumptions on its arguments' sizes that an exported program records.

    Assumptions on the base of an example that is a view do not count: a program sees only the view,
    and checks its layout. The signature of ``module``, the program's, binds arguments to names.
    """
    texts = [text for text in exported._guards_code if "._base." not in text]
    reader = _Reader(_sources(exported, module) if texts else {})
    suffix = ", as the model was exported"
    return [(reader.condition(text), f"{_shown(text)}{suffix}") for text in texts]


def _shown(text: str) -> str:
    return re.sub(r"L\['(\w+)'\]", r"\1", " ".join(text.split()))


def _sources(exported: torch.export.ExportedProgram, module: Any) -> dict[str, Any]:
    """Return the fake value of each argument, under every text that may refer to it."""
    specs = exported.graph_signature.input_specs
    names = [spec.arg.name for spec in specs if spec.kind is InputKind.USER_INPUT]
    places = exported.graph.find_nodes(op="placeholder")
    values = {node.name: node.meta.get("val") for node in places}
    spec: Any = exported.call_spec.in_spec
    args, kwargs = pytree.tree_unflatten(list(range(len(names))), spec)
    bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    sources = {}
    for path, index in pytree.tree_leaves_with_path(dict(bound)):
        value = values.get(names[index])
        text = f"L{pytree.keystr(path)}"
        # The module sees each of *args as an argument of its own: args_0 for args[0].
        variadic = re.sub(r"^L\['(\w+)_(\d+)'\]", r"L['\1'][\2]", text)
        for source in (f"L['flat_args'][{index}]", text, variadic):
            sources[source] = value
    return sources


Make = Callable[..., Any]


def _power(base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
    """Return a power as Python computes it: of integers exactly, of others in double precision."""
    try:
        return sympy.Pow(*map(ours.dim, (base, exponent)))
    except ours.UnsupportedExprError:
        return ours.FloatPow(base, exponent)


_OPERATORS: Final[Mapping[type[ast.AST], Make]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Pow: _power,
    ast.LShift: ours.ShiftLeft,
    ast.RShift: ours.ShiftRight,
    ast.Div: ours.TrueDiv,
    ast.USub: lambda a: -a,
    ast.NotEq: sympy.Ne,
    ast.LtE: sympy.Le,
    ast.GtE: sympy.Ge,
    # These have the same names there.
    **{getattr(ast, n): getattr(ours, n) for n in ("BitAnd", "BitOr", "BitXor", "FloorDiv", "Mod")},
    **{getattr(ast, n): getattr(sympy, n) for n in ("Not", "And", "Or", "Eq", "Lt", "Gt")},
}

_FUNCTIONS: Final[Mapping[str, Make]] = {
    **dict.fromkeys(("max", "torch.sym_max"), sympy.Max),
    **dict.fromkeys(("min", "torch.sym_min"), sympy.Min),
    **dict.fromkeys(("float", "torch.sym_float"), ours.ToFloat),
    **dict.fromkeys(("int", "math.trunc"), ours.Truncate),
    "abs": sympy.Abs,
    "round": lambda value: ours.Round(value),  # with digits, it is another function
    "math.floor": ours.Floor,
    "math.ceil": ours.Ceil,
    **{f"math.{name}": function for name, function in REAL_FUNCTIONS.items()},
    **{f"torch._sym_{name}": function for name, function in REAL_FUNCTIONS.items()},
}


class _UnknownFormError(Exception):
    """A text contains something outside the vocabulary."""


#: Errors from reading a text that is not a condition on arguments.
_UNREADABLE: Final = (
    *(_UnknownFormError, ours.UnsupportedExprError),
    *(SyntaxError, TypeError, ValueError, RecursionError),
)


class _Reader:
    """Reads conditions on arguments, whose fake values it has by the texts that refer to them."""

    def __init__(self, sources: Mapping[str, Any]) -> None:
        self._sources = sources

    def condition(self, text: str) -> Scalar:
        """Return the condition that a text states."""
        try:
            condition = ours.scalar(self._value(ast.parse(text.strip(), mode="eval").body))
            if not ours.is_relation(condition):
                raise _UnknownFormError
            return condition
        except _UNREADABLE as error:
            problem = f"torch.export assumed {_shown(text)!r}, which has no form in a program"
            raise CaptureError(problem=problem) from error

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return sympy.sympify(number)
            case ast.BinOp(left=left, op=op, right=right):
                return _operator(op)(self._value(left), self._value(right))
            case ast.UnaryOp(op=op, operand=operand):
                return _operator(op)(self._value(operand))
            case ast.BoolOp(op=op, values=values):
                return _operator(op)(*map(self._value, values))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self._comparison([left, *comparators], ops)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return ours.Where(*map(self._value, (test, body, orelse)))
            case ast.Call(func=function, args=args) if ast.unparse(function) in _FUNCTIONS:
                return _FUNCTIONS[ast.unparse(function)](*map(self._value, args))
            case _:
                return self._number(node)

    def _comparison(self, values: Sequence[ast.expr], ops: Sequence[ast.cmpop]) -> Any:
        numbers = [self._value(value) for value in values]
        pairs = zip(ops, numbers, numbers[1:], strict=False)
        return sympy.And(*(_operator(op)(a, b) for op, a, b in pairs))

    def _number(self, node: ast.expr) -> Any:
        """Return the number that an argument is, or that its metadata hold."""
        match node:
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=source, attr="size" | "stride" as method)),
                slice=ast.Constant(value=int() as dim),
            ):
                number = getattr(self._source(source), method)()[dim]
            case ast.Call(func=ast.Attribute(value=source, attr="storage_offset")):
                number = self._source(source).storage_offset()
            case _:
                number = self._source(node)
        if not isinstance(number, (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise _UnknownFormError
        return sympy.sympify(to_scalar(number))

    def _source(self, node: ast.expr) -> Any:
        text = ast.unparse(node)
        if text not in self._sources:
            raise _UnknownFormError
        return self._sources[text]


def _operator(op: ast.AST) -> Make:
    if type(op) not in _OPERATORS:
        raise _UnknownFormError
    return _OPERATORS[type(op)]


class FixedSizeWarning(UserWarning):
    """Inductor fixed a size that the export left free, so the program accepts no other."""


def free_sizes(graph: torch.fx.Graph, input_names: Collection[object]) -> list[tuple[str, int]]:
    """Return the free (input, dimension) pairs of the named inputs, before Inductor fixes any."""
    return [
        (node.name, dim)
        for node in graph.find_nodes(op="placeholder")
        if node.name in input_names
        for dim, size in enumerate(getattr(node.meta.get("val"), "shape", ()))
        if isinstance(size, torch.SymInt) and size.node.expr.free_symbols
    ]


def warn_of_fixed_sizes(program: Program, free: Sequence[tuple[str, int]]) -> None:
    """Warn about sizes that were free in the export and are numbers in the program."""
    inputs = {each.name for each in program.inputs if isinstance(each, BufferInput)}
    sizes = [(n, dim, program.layout(n).size[dim]) for n, dim in free if n in inputs]
    fixed = [f"size {dim} of '{n}' is {size}" for n, dim, size in sizes if isinstance(size, int)]
    if fixed:
        warnings.warn(
            f"Inductor fixed sizes that the export left free: {', '.join(fixed)}. The program "
            "rejects other sizes (AOTInductor's packages compute wrong results for them). Capture "
            "a program for each size, or try wir.from_fx on a fresh export, which fixes none",
            FixedSizeWarning,
            stacklevel=4,
        )


class LostSizesWarning(UserWarning):
    """Inductor relies on a relation of sizes that the export left free; the program checks it."""


def warn_of_lost_sizes(program: Program, relied_on: Sequence[Guard]) -> None:
    """Warn about relations of the inputs' sizes that only Inductor needs.

    ``relied_on`` are conditions with messages; one that always holds loses nothing. Whether it does
    is found by trying sizes, which is enough for a warning: the check stays in any case.
    """
    bound = {line.symbol: line.source for line in program.body if isinstance(line, BindSymbol)}
    sizes = [(name, source) for name, source in bound.items() if isinstance(source, SizeOf)]
    places = {name: f"size {source.dim} of '{source.buffer}'" for name, source in sizes}
    needed = [guard for guard in relied_on if guard[0] is not True]
    lost = {text: ours.free_symbols(c) for c, text in needed if _refuses_sizes(program, c)}
    if not lost:
        return
    symbols = [name for name in sorted(set().union(*lost.values())) if name in places]
    where = "".join(f"; {name} is {places[name]}" for name in symbols)
    warnings.warn(
        f"the program accepts fewer sizes than the export: it needs {', '.join(lost)}{where}. "
        "The program rejects other sizes (AOTInductor's packages do not check). Capture another "
        "program from an example with such sizes, or try wir.from_fx on a fresh export",
        LostSizesWarning,
        stacklevel=4,
    )


#: Sizes to try: all small ones, and around each power of two.
_SIZES: Final = sorted({*range(20), *(2**n + more for n in range(5, 21) for more in (-1, 0, 1))})

#: The most combinations to try.
_MOST: Final = 4096


def _refuses_sizes(program: Program, condition: Scalar) -> bool:
    """Return whether a condition is false for some sizes in the ranges of its symbols."""
    names = sorted(ours.free_symbols(condition))
    infos = [program.symbols.get(name, SymbolInfo()) for name in names]
    from wrapper_ir.interpreter.frame import evaluate  # noqa: PLC0415 - loads the interpreter

    tried = [
        [n for n in _SIZES if (i.lower or 0) <= n and (i.upper is None or n <= i.upper)]
        for i in infos
    ]
    for sizes in itertools.islice(itertools.product(*tried), _MOST):
        try:
            if not evaluate(condition, dict(zip(names, sizes, strict=True))):
                return True
        except (ArithmeticError, ValueError, WrapperIRError):  # it has no value there
            return True
    return False
