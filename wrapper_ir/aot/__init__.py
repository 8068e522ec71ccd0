"""Building, packaging and loading of emitted C++ programs, ahead of time or just in time.

``export`` writes a package, a library or a folder; ``build`` compiles and links; ``load`` turns a
library into a Python function. An artifact's manifest lists what its program needs for that, so no
generated text is parsed here.
"""
