// Which of the architectures of this build the current device runs.
#pragma once

namespace baltoro::cuda {

// Of the code that the runtime chose for the current device: 90 for compute capability 9.0a, 80 for
// 8.0 or for what the driver makes of its PTX, whatever the device. Throws Error{kDevice} where the
// build holds no code for the device.
int device_code();

}  // namespace baltoro::cuda
