// Memory of the device is open as long as one of these lives.
#pragma once
namespace device_protected { struct Open { Open(); ~Open(); }; }
