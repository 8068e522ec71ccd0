"""From an emitted C++ program to what runs: built, packaged and loaded, ahead of time or now.

``export`` writes a package, a library or a folder; ``build`` compiles and links; ``load`` makes a
Python function of a library. What a program needs for that stands in its artifact's manifest: no
generated text is read here.
"""
