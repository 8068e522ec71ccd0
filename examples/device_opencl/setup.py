"""Compiles the device's library."""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

import wrapper_ir

NAME = "libdevice_opencl.so"


class Build(build_ext):
    """Names it as C++ programs look for it."""

    def get_ext_filename(self, name):
        """Return the name, whatever Python's modules are called."""
        return NAME


library = Extension(
    "device_opencl.library",
    ["device_opencl/library.cpp"],
    include_dirs=[str(Path(wrapper_ir.__file__).with_name("native") / "include")],
    extra_compile_args=["-std=c++20"],
    extra_link_args=[f"-Wl,-soname,{NAME}"],
)
setup(ext_modules=[library], cmdclass={"build_ext": Build})
