"""The kit's tests on each mutant: a class each. ``python -m tests.kit_mutants`` runs them.

Importing this module makes the mutants emitters of the process.
"""

from __future__ import annotations

from tests.kit_mutants.machine import register
from tests.kit_mutants.mutants import MUTANTS
from wrapper_ir.testing.conformance import EmitterConformance

for _mutant in MUTANTS:
    register(_mutant)
    globals()[f"Test_{_mutant.name}"] = type(
        f"Test_{_mutant.name}", (EmitterConformance,), {"target": _mutant.name}
    )
