"""The C++ emitter, and the building, packaging and loading of its programs.

``emitter`` holds the emitter and its artifacts. ``export`` writes a package, a library or a folder;
``build``, ``package``, ``load`` and ``source`` are the rooms for each. ``meanwhile`` serves calls
while a library is built. An artifact's manifest lists what its program needs for that, so no
generated text is parsed here.
"""
