"""The device, known to torch: where torch was imported before the package could be seen, too."""

import device_opencl.memory  # noqa: F401
