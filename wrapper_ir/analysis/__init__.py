"""Analyses of programs, shared by passes, emitters, probes and the diff.

- :mod:`~wrapper_ir.analysis.capture`: obstacles to capturing calls as CUDA graphs, and pieces.
- :mod:`~wrapper_ir.analysis.devices`: the devices that a program runs on.
- :mod:`~wrapper_ir.analysis.handed_over`: inputs that calls let go of, results in callers' memory.
- :mod:`~wrapper_ir.analysis.kept`: memory and views that last from call to call.
- :mod:`~wrapper_ir.analysis.liveness`: storages and their live ranges, aliases and escapes.
- :mod:`~wrapper_ir.analysis.ops`: facts about library ops that effects do not show.
- :mod:`~wrapper_ir.analysis.ordering`: the order of work across streams.
- :mod:`~wrapper_ir.analysis.proof`: proofs about symbolic sizes.
- :mod:`~wrapper_ir.analysis.random_states`: states of random numbers, on the host or not.
- :mod:`~wrapper_ir.analysis.schemas`: declared schemas against registered ones.
- :mod:`~wrapper_ir.analysis.stored`: complex inputs that may not be conjugated lazily.
- :mod:`~wrapper_ir.analysis.streams`: the streams that lines are carried out on.
- :mod:`~wrapper_ir.analysis.symbols`: the symbols that regions need, and values for examples.

The effects of a single line are in :func:`wrapper_ir.lines.effects`. The verifier tracks storage on
its own, because it checks what passes did with these answers.
"""
