"""Compile the device's memory and its ops."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

name, files = "device_protected.libdevice_protected", ["device_protected/memory.cpp"]
linked = ["-Wl,-soname,libdevice_protected.so"]  # emitted libraries find it by this name
memory = CppExtension(name, files, extra_link_args=linked)
build = BuildExtension.with_options(no_python_abi_suffix=True, use_ninja=False)
setup(ext_modules=[memory], cmdclass={"build_ext": build})
