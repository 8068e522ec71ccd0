"""The conformance kit on an emitter that comes from outside, and on our own."""

from __future__ import annotations

import pytest

from tests.emitters.fx.support import ABSENT
from wrapper_ir.testing.conformance import EmitterConformance


class TestNumpy(EmitterConformance):
    """The package in ``tests/plugin_emitter``, installed with the tests."""

    target = "numpy"
    refused = frozenset("""
        aliases arguments asserts attention backward bits channels_last comments complex_numbers
        cond cond_integers cond_nested constants definitions_between dtypes dynamic_shapes effects
        embedding extern_fresh extern_out foreach fourier half_types index_put input_mutation item
        items list_results masks multi_output planned pools_types probes probes_in_regions residual
        reuse switch symbols topk unbacked while while_double while_in_cond while_number
        while_stacked while_without_rounds zeroed
        """.split())  # noqa: SIM905 - one name a line would take the page
    has_probes = False


@pytest.mark.usefixtures("corpus_kernels")
class TestPython(EmitterConformance):
    target = "python"


@pytest.mark.models
class TestCpp(EmitterConformance):
    target = "cpp"


@pytest.mark.models
class TestFx(EmitterConformance):
    target = "fx"
    refused = frozenset(ABSENT)
    has_branches = False
