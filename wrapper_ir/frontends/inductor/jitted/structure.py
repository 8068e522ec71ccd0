"""How arguments and results of a call are structured: nodes in preorder, as the table reads them.

``wrapper_ir/native/python/structure.h`` reads arguments along such nodes and builds results along
them. Tuples, lists and dicts are known there; other types are those that pytree knows.
"""

from __future__ import annotations

import collections
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


class OddCallError(Exception):
    """A call that is not tested soundly; the text says why."""


class Kind(enum.IntEnum):
    """The kinds of nodes, numbered as in ``structure.h``."""

    TENSOR = 0
    VALUE = 1
    TUPLE = 2
    LIST = 3
    DICT = 4
    OTHER = 5
    RESULT = 6
    INPUT = 7


class Node(NamedTuple):
    """A node.

    Attributes:
        kind: Its kind.
        type: The exact type of the value.
        number: The number of children; of a ``RESULT`` or ``INPUT`` its position.
        value: A ``VALUE``, the keys of a dict, or what pytree keeps of another type.
        function: Takes a value of another type apart, or builds one.
    """

    kind: Kind
    type: type
    number: int = 0
    value: Any = None
    function: Callable[..., Any] | None = None


_BUILT_IN: Final[dict[type, Kind]] = {tuple: Kind.TUPLE, list: Kind.LIST, dict: Kind.DICT}

_UNCHANGING: Final = frozenset(
    (
        *(int, float, bool, str, bytes, complex, type(None), type(...)),
        *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size),
    )
)


def is_unchanging(value: object) -> bool:
    """Return whether a value can be compared with a later one, and never changes itself."""
    return type(value) in _UNCHANGING or isinstance(value, enum.Enum)


def nodes_of(value: Any, leaf: Callable[[Any], Node], *, builds: bool = False) -> list[Node]:
    """Return the nodes of a value.

    Args:
        value: The value.
        leaf: Returns the node of a leaf.
        builds: Whether the nodes are to build such a value, rather than to take one apart.
    """
    kind = _BUILT_IN.get(type(value))
    kept: Any = None
    function = None
    if kind is not None:
        children = list(value.values()) if kind is Kind.DICT else list(value)
        if kind is Kind.DICT:
            kept = tuple(value)
            if not all(map(is_unchanging, kept)):
                raise OddCallError("a dict has keys other than numbers and strings")
    else:
        known = _definition(type(value))
        if known is None or (is_unchanging(value) and not builds):
            return [leaf(value)]
        kind, function = Kind.OTHER, known.unflatten_fn if builds else known.flatten_fn
        if builds and type(value) is torch.Size:  # of which pytree makes a tuple
            function = _size
        flat: Any = known.flatten_fn(value)
        children, kept = list(flat[0]), flat[1]
    nodes = [Node(kind, type(value), len(children), kept, function)]
    for child in children:
        nodes += nodes_of(child, leaf, builds=builds)
    return nodes


def _size(numbers: Any, _: object) -> torch.Size:
    return torch.Size(numbers)


def _definition(kind: type) -> Any:
    is_named = issubclass(kind, tuple) and hasattr(kind, "_fields")
    key: Any = collections.namedtuple if is_named else kind
    return pytree.SUPPORTED_NODES.get(key)


def built(nodes: Iterator[Node], tensors: Iterator[Tensor]) -> Any:
    """Return a value of the structure that ``nodes`` take apart, with other tensors."""
    node = next(nodes)
    if node.kind is Kind.TENSOR:
        return next(tensors)
    if node.kind is Kind.VALUE:
        return node.value
    children = [built(nodes, tensors) for _ in range(node.number)]
    if node.kind is Kind.DICT:
        return dict(zip(node.value, children, strict=True))
    if node.kind is Kind.OTHER:
        return _definition(node.type).unflatten_fn(children, node.value)
    return node.type(children)


class Outline(NamedTuple):
    """A call without its tensors: all that has to be the same, then their sizes and strides."""

    structure: tuple[Any, ...]
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]]


@dataclass(frozen=True)
class Call:
    """The arguments of a call.

    Attributes:
        nodes: Those of its positional arguments, then of its keyword arguments.
        positional: The number of positional arguments.
        names: The names of keyword arguments.
        first: By tensor among the arguments, its position in ``tensors``.
        tensors: The tensors, each once.
    """

    nodes: list[Node]
    positional: int
    names: tuple[str, ...]
    first: list[int]
    tensors: list[Tensor]

    def arguments(self, tensors: Sequence[Tensor]) -> tuple[list[Any], dict[str, Any]]:
        """Return positional and keyword arguments with other tensors."""
        nodes, given = iter(self.nodes), iter([tensors[at] for at in self.first])
        args = [built(nodes, given) for _ in range(self.positional)]
        return args, {name: built(nodes, given) for name in self.names}

    @property
    def shares_memory(self) -> bool:
        """Whether some of the tensors share memory."""
        return len({each.untyped_storage().data_ptr() for each in self.tensors}) < len(self.tensors)

    @property
    def outline(self) -> Outline:
        """What to keep of the call."""
        kinds = [(each.dtype, each.device, each.ndim) for each in self.tensors]
        structure = (self.nodes, self.positional, self.names, self.first, kinds)
        return Outline(structure, [(tuple(t.shape), t.stride()) for t in self.tensors])


def read_call(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """Return a call's structure.

    Raises:
        OddCallError: An argument cannot be tested soundly.
    """
    first: list[int] = []
    tensors: list[Tensor] = []
    places: dict[int, int] = {}

    def leaf(value: Any) -> Node:
        if isinstance(value, Tensor):
            refuse_odd(value, "an argument")
            if id(value) not in places:
                places[id(value)] = len(tensors)
                tensors.append(value)
            first.append(places[id(value)])
            return Node(Kind.TENSOR, type(value))
        if not is_unchanging(value):
            raise OddCallError(f"an argument is a {type(value).__name__}, unknown to pytree")
        return Node(Kind.VALUE, type(value), value=value)

    nodes = [node for each in (*args, *kwargs.values()) for node in nodes_of(each, leaf)]
    return Call(nodes, len(args), tuple(kwargs), first, tensors)


def refuse_odd(tensor: Tensor, what: str) -> None:
    """Refuse a tensor whose memory may not hold its values.

    Raises:
        OddCallError: It is a subclass's, or not strided.
    """
    if type(tensor) not in (Tensor, nn.Parameter):
        raise OddCallError(f"{what} is a {type(tensor).__name__}")
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_mkldnn:
        raise OddCallError(f"{what} is a tensor stored as {tensor.layout}")
    if tensor.is_neg() or tensor.is_conj():
        raise OddCallError(f"{what} is negated or conjugated lazily")
