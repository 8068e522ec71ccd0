"""Analyses of programs, shared by passes, emitters, probes and the diff.

- :mod:`~wrapper_ir.analysis.borders`: inputs and results of calls, symbols that regions need.
- :mod:`~wrapper_ir.analysis.cuda_graphs`: obstacles to capturing calls as CUDA graphs, and pieces.
- :mod:`~wrapper_ir.analysis.devices`: the devices that a program runs on.
- :mod:`~wrapper_ir.analysis.kept`: memory and views that last from call to call.
- :mod:`~wrapper_ir.analysis.liveness`: storages and their live ranges, aliases and escapes.
- :mod:`~wrapper_ir.analysis.ops`: facts about library ops that effects do not show.
- :mod:`~wrapper_ir.analysis.ordering`: streams, and the order of work across them.
- :mod:`~wrapper_ir.analysis.proof`: proofs about symbolic sizes.
- :mod:`~wrapper_ir.analysis.schemas`: declared schemas against registered ones.

The effects of a single line are in :func:`wrapper_ir.lines.effects`. The verifier tracks storage on
its own, because it checks what passes did with these answers.
"""
