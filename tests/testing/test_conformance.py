"""The conformance kit on an emitter that comes from outside, and on our own."""

from __future__ import annotations

import pytest

from wrapper_ir.testing.conformance import EmitterConformance


class TestNumpy(EmitterConformance):
    """The package in ``tests/plugin_emitter``, installed with the tests."""

    target = "numpy"
    refused = frozenset("""
        aliases arguments asserts backward comments complex_numbers cond cond_nested
        constants definitions_between dtypes dynamic_shapes extern_fresh extern_out
        index_put input_mutation item list_results multi_output planned probes reuse symbols
        unbacked while while_number while_stacked zeroed
        """.split())  # noqa: SIM905 - one name a line would take the page
    has_probes = False


class TestPython(EmitterConformance):
    target = "python"


@pytest.mark.models
class TestCpp(EmitterConformance):
    target = "cpp"


@pytest.mark.models
class TestFx(EmitterConformance):
    target = "fx"
