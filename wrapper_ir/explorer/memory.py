"""Plans as data: figures, the peak, and boxes of memory over time."""

from __future__ import annotations

from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.explorer import document
from wrapper_ir.planning import PlanResult, kept_pools, panels
from wrapper_ir.planning.sizes import Sizes, held_bytes


def plan_of(done: PlanResult, strategy: str, *, shown: bool) -> document.Plan:
    """Return a plan as data: figures, what lives at the peak, and boxes of memory over time."""
    report, program = done.report, done.program
    at_peak = [document.HeldAtPeak(h.name, h.nbytes, h.why.value) for h in report.at_peak]
    return document.Plan(
        strategy=strategy,
        shown=shown,
        winner=report.winner,
        allocations=report.allocations,
        reuses=report.reuses,
        total_bytes=report.total_bytes,
        unplanned_peak_bytes=report.unplanned_peak_bytes,
        peak_bytes=report.peak_bytes,
        lower_bound_bytes=report.lower_bound_bytes,
        kept_bytes=report.kept_bytes,
        peak_at=report.peak_at,
        at_peak=at_peak,
        panels=[
            document.Panel(
                title=panel.title,
                region=panel.region,
                bytes=panel.nbytes,
                lower_bound=panel.lower_bound,
                length=panel.length,
                names=[box.name for box in panel.boxes],
                offsets=[box.offset for box in panel.boxes],
                sizes=[box.nbytes for box in panel.boxes],
                starts=[box.start for box in panel.boxes],
                ends=[box.end for box in panel.boxes],
            )
            for panel in panels(program)
        ],
        held=_held(done),
    )


def _held(done: PlanResult) -> list[int]:
    """Return the bytes held at each line of the main body; arenas that are kept always are."""
    program, region, always = done.program, done.program.region, done.report.kept_bytes
    sizes = Sizes(program).compute(program)
    besides = kept_pools(program) if always else ()
    held = held_bytes(region, Liveness(region, program), program, sizes, besides)
    return [nbytes + always for nbytes in held]
