"""State that all parts of the builder share."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from wrapper_ir.build.draft import ProgramDraft
from wrapper_ir.build.values import LayoutLike, Size, device_of, here, layout_of
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines import Device, Dim, DType, Layout

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="Part")


class Part:
    """Base of the parts that make up the builder; each has the calls of one family."""

    def __init__(self, device: Device | str) -> None:
        #: Where buffers are unless said otherwise.
        self.device = device_of(device)
        self._draft = ProgramDraft()

    def _layout(
        self,
        dtype: DType | str | LayoutLike,
        size: Size | None = None,
        stride: Size | None = None,
        device: Device | str | None = None,
        offset: Dim = 0,
    ) -> Layout:
        where = None if device is None else device_of(device)
        if where is None and isinstance(dtype, (DType, str, tuple)):
            where = self.device
        return layout_of(dtype, size, stride, where, offset)


def located(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Has errors name the line of the user's that made the call."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except WrapperIRError as error:
            if error.origin is None:
                number = here(self._draft)
                frame = self._draft.origins[number].frames[0]
                error.origin = f"{frame.file}:{frame.line}"
            raise

    return call
