"""Options: each is declared once, and everything that takes or tells of it asks the declaration.

``declared`` has the options of the library, ``gpu`` those for GPUs alone. ``schema`` says what an
option is: a name, a type, a default, legal values, help, what it excludes, the environment variable
that gives its default. It also turns words of a shell, a variable or a pipeline into values.

Keyword arguments, ``torch.compile(options=...)``, ``install``, flags and their help, ``-O
key=value``, the environment, passes as text and the tables in the documents derive from it.
Nothing here imports torch, or anything of the library but its errors.
"""

from __future__ import annotations

from wrapper_ir.options.schema import (
    NO_OPTION,
    REQUIRED,
    Exclusion,
    Option,
    check_options,
    check_values,
    made_with,
    options_of,
    read_options,
    type_name,
)

__all__ = [
    "NO_OPTION",
    "REQUIRED",
    "Exclusion",
    "Option",
    "check_options",
    "check_values",
    "made_with",
    "options_of",
    "read_options",
    "type_name",
]
