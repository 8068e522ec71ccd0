"""The typed document that a page shows. ``--json`` prints it, and pages hold it.

Convention: tables with a row for each line or buffer are *columns*, lists of equal length. A line
is named by its row in :class:`Lines`, a buffer by its row in :class:`Buffers`, and so on; -1 is
none. Sizes are bytes, taken at the hints of symbols.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final

FORMAT: Final = "wrapper_ir.explorer"

VERSION: Final = 1
"""Changes when a field changes its meaning or goes; new fields leave it."""

NONE: Final = -1


@dataclass(slots=True)
class Text:
    """A text, and for each of its rows the line that it belongs to."""

    rows: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Lines:
    """The lines of a program with their regions, in the order of the text; columns."""

    path: list[str] = field(default_factory=list)
    mnemonic: list[str] = field(default_factory=list)
    callee: list[str] = field(default_factory=list)
    """The kernel or library op that the line calls or declares; empty for none."""
    kind: list[str] = field(default_factory=list)
    """``kernel``, ``op``, ``collective``, ``wait``, ``memory``, ``control``, ``declares`` or
    ``other``."""
    origin: list[int] = field(default_factory=list)
    kernel: list[int] = field(default_factory=list)
    """The kernel that the line calls or declares."""
    stream: list[int] = field(default_factory=list)
    """The stream that it runs on; 0 is the caller's, -1 the host."""
    defines: list[list[int]] = field(default_factory=list)
    reads: list[list[int]] = field(default_factory=list)
    writes: list[list[int]] = field(default_factory=list)
    ends: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class Buffers:
    """The buffers of a program, inputs and constants among them; columns."""

    name: list[str] = field(default_factory=list)
    layout: list[str] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    role: list[str] = field(default_factory=list)
    """``input``, ``constant``, ``result`` or empty."""
    storage: list[int] = field(default_factory=list)
    """The first buffer of the storage that it is a view of, or that it took over."""
    line: list[int] = field(default_factory=list)
    """The line that defines it."""


@dataclass(slots=True)
class Origins:
    """Where lines come from in the model; columns. Frames are innermost last."""

    module: list[str] = field(default_factory=list)
    ops: list[list[str]] = field(default_factory=list)
    nodes: list[list[int]] = field(default_factory=list)
    frames: list[list[int]] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    """The frame that a user wants to see."""


@dataclass(slots=True)
class Frames:
    """Places in source files; columns."""

    file: list[int] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    """Counted from 1."""
    function: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SourceFile:
    """A file of the model: whole if it was found unchanged, else the rows that origins quote."""

    name: str
    numbers: list[int]
    rows: list[str]
    whole: bool


@dataclass(slots=True)
class Nodes:
    """The nodes of the ATen graph that lines implement; columns. Without a graph, no texts."""

    name: list[str] = field(default_factory=list)
    op: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Graph:
    """A graph that torch's log has as text."""

    title: str
    rows: list[str]
    lines: list[list[int]]
    """For each row, the lines that compute its node."""
    frames: list[int]
    """For each row, the place in the model that it comes from."""


@dataclass(slots=True)
class Target:
    """The text of an emitter, or why it has none."""

    name: str
    text: Text = field(default_factory=Text)
    refused: str = ""


@dataclass(slots=True)
class Kernel:
    """A kernel, and the line that declares it."""

    name: str
    language: str
    line: int
    rows: list[str]


@dataclass(slots=True)
class Panel:
    """A piece of memory; its boxes are columns. Positions are lines of its region."""

    title: str
    region: str
    """The path of the line that holds the region; empty for the main body."""
    bytes: int
    lower_bound: int
    length: int
    names: list[str]
    offsets: list[int]
    sizes: list[int]
    starts: list[int]
    ends: list[int]


@dataclass(slots=True)
class HeldAtPeak:
    """Storage that lives at the peak, with the reason."""

    name: str
    bytes: int
    why: str


@dataclass(slots=True)
class Plan:
    """A plan of the program by one strategy; positions are lines of that plan."""

    strategy: str
    shown: bool
    """True if the lines are those of this plan."""
    winner: str
    allocations: int
    reuses: int
    total_bytes: int
    unplanned_peak_bytes: int
    peak_bytes: int
    lower_bound_bytes: int
    kept_bytes: int
    peak_at: str
    at_peak: list[HeldAtPeak]
    panels: list[Panel]
    held: list[int]
    """Bytes held at each line of the main body."""


@dataclass(slots=True)
class Order:
    """A wait of one stream for another, or a collective until it is waited for."""

    kind: str
    """``event`` or ``collective``."""
    start: int
    """The line that records the event or starts the collective."""
    end: int


@dataclass(slots=True)
class Finding:
    """Something that somebody found out about a line, such as the first difference of two runs."""

    kind: str
    line: int
    text: str
    buffer: int = NONE


@dataclass(slots=True)
class Time:
    """What a call took in a recorded run."""

    seconds: float
    """The median of the runs, all visits of the call together."""
    least: float
    visits: int
    read_bytes: int
    written_bytes: int


@dataclass(slots=True)
class View:
    """One program with everything that a page shows of it.

    What stock torch compiled is shown in the same columns: its lines are statements of Inductor's
    code, its buffers are variables, whose sizes are not known (-1), and it has no plans.
    """

    name: str
    role: str
    stage: str
    """The stage that it was given in; what is shown is planned. Empty for what torch compiled."""
    figures: dict[str, int | None]
    hints: dict[str, int]
    inputs: list[int]
    results: list[int]
    text: Text
    lines: Lines
    buffers: Buffers
    streams: list[str]
    origins: Origins
    frames: Frames
    files: list[SourceFile]
    nodes: Nodes
    targets: list[Target] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """The lines of calls by the labels that the debug printer and ``bisect`` give them."""
    findings: list[Finding] = field(default_factory=list)
    recorded: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """For calls of a recorded run: what was measured of each of their buffers."""
    times: dict[int, Time] = field(default_factory=dict)
    """The time of calls in a recorded run, by line."""
    graphs: list[Graph] = field(default_factory=list)
    """Of what stock torch compiled: graphs in the order of their making. ``nodes`` has those of the
    last one."""
    language: str = "wir"
    """The language of ``text``; ``python`` for what Inductor wrote."""
    facts: dict[str, str] = field(default_factory=dict)
    """What else is known, in words."""


@dataclass(slots=True)
class Document:
    """All that a page shows: a program, two and how they differ, or what torch compiled."""

    programs: list[View]
    changes: dict[str, Any] | None = None
    """The fields of a :class:`wrapper_ir.ProgramDiff` of the planned programs."""
    format: str = FORMAT
    version: int = VERSION
    made_by: str = field(default_factory=lambda: f"wrapper_ir {version('wrapper-ir')}")

    def as_data(self) -> dict[str, Any]:
        """Return the document as lists, dictionaries, strings and numbers."""
        return dataclasses.asdict(self)
