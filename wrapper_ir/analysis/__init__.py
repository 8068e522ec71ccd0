"""What holds of a program, worked out once: passes, emitters, probes and the diff ask here.

- :mod:`~wrapper_ir.analysis.liveness`: the storages of a region and their live ranges; aliases,
  escapes, donated and returned storage; what happens to them, and to their names.
- :mod:`~wrapper_ir.analysis.ops`: facts of library ops that effects do not show.
- :mod:`~wrapper_ir.analysis.ordering`: which work of which stream comes before which.
- :mod:`~wrapper_ir.analysis.proof`: what is provable of symbolic sizes.

What one line does, :func:`wrapper_ir.lines.effects` says. The verifier works storage out by itself,
since it checks what was done with these answers.
"""
