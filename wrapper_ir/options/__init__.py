"""Options: each is declared once, and every consumer derives from the declaration.

``declared`` has the options of the library, ``gpu`` those for GPUs only. ``schema`` defines an
option: its name, type, default, legal values, help, exclusions, and the environment variable that
sets its default. It also parses words from a shell, a variable or a pipeline into values.

Keyword arguments, ``torch.compile(options=...)``, ``install``, command line flags with their help,
``-O key=value``, the environment, passes in textual form and the tables in the documentation all
derive from it. Nothing here imports torch, or any part of the library except its errors.
"""
