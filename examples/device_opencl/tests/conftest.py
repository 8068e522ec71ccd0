"""The device, known to torch: where torch was imported before the package was installed, too."""

from device_opencl import memory

memory.register()
