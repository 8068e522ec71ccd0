"""Objects of custom classes: who may hand them on, and memory that they may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lines.args import ResultObject
from wrapper_ir.lines.schema import CLASS_NAME
from wrapper_ir.verify import rules
from wrapper_ir.verify.tables import check_name

if TYPE_CHECKING:
    from wrapper_ir.lines import Effects, ExternKernel, ObjectInput
    from wrapper_ir.verify.lifetimes import Lifetimes
    from wrapper_ir.verify.state import Place, State


class Objects:
    """The objects of the program; most have none."""

    def __init__(self, state: State, lifetimes: Lifetimes) -> None:
        self._state = state
        self._lifetimes = lifetimes

    def define_constants(self) -> None:
        """Checks the table of objects that belong to the program."""
        for name, constant in self._state.program.objects.items():
            self._define(name, constant.class_name, self._state.here(f"objects.{name}"))

    def define_input(self, item: ObjectInput, place: Place) -> None:
        """Enters an input of the program; regions take no objects."""
        if self._state.frame is not self._state.root:
            self._refuse(item.object, place)
        elif item.object in self._state.objects:
            self._report_taken(item.object, "another object", place)
        else:
            self._state.objects[item.object] = item.class_name
            self._define(item.object, item.class_name, place)

    def define_results(self, line: ExternKernel) -> None:
        """Enters the objects that an op returns; in regions none does."""
        for result in line.results:
            if not isinstance(result, ResultObject):
                continue
            if self._state.frame is not self._state.root:
                self._refuse(result.object)
            elif result.object in self._state.objects:
                self._report_taken(result.object, "another object", self._state.here())
            else:
                self._state.objects[result.object] = result.class_name
                self._define(result.object, result.class_name, self._state.here())

    def _define(self, name: str, class_name: str, place: Place) -> None:
        check_name(self._state, name, "object", place)
        if CLASS_NAME.fullmatch(class_name) is None:
            self._state.report(rules.BAD_NAME, place=place, name=class_name, what="class")
        if name in self._state.buffer_names or name in self._state.program.buffers:
            self._report_taken(name, f"buffer %{name}", place)

    def _report_taken(self, name: str, other: str, place: Place) -> None:
        self._state.report(rules.OBJECT_NAME_TAKEN, place=place, name=name, other=other)

    def check(self, found: Effects) -> None:
        """Checks the objects that a line hands on, and notes what they may hold then."""
        for name in found.objects:
            if name not in self._state.objects or self._state.frame is not self._state.root:
                self._refuse(name)
        for name in found.held:
            self._hold(name)

    def _refuse(self, name: str, place: Place | None = None) -> None:
        is_known = name in self._state.objects
        where = "that a region may have" if is_known else "of the program"
        near = self._state.near(name, self._state.objects)
        self._state.report(rules.UNKNOWN_OBJECT, place=place, name=name, where=where, near=near)

    def _hold(self, name: str) -> None:
        buffer = self._lifetimes.buffers.get(name)
        for storage in () if buffer is None else buffer.storages:
            storage.held = True
            if storage.slot is not None:
                what = f"which lies in pool %{storage.slot.pool.owner}"
                self._state.report(rules.HELD_STORAGE, name=name, what=what)
