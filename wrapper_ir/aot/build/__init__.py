"""Building libraries: kernels in groups, constants as bytes, compilers in parallel, a linker.

``library`` builds one, for AOTInductor's loaders or for ours; ``options`` are its options.
"""
