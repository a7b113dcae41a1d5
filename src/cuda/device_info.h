// What the choice of kernels depends on: the properties of one GPU.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace baltoro::cuda {

struct DeviceInfo {
  int index = 0;
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  int code = 0;  // what it runs of this build (cuda/device_code.h)
  int num_sms = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes = 0;  // that one block may ask for
  std::size_t memory_bytes = 0;

  // Whether kernels for compute capability 9.0a, which run on no other, are in this build and serve.
  bool is_hopper() const noexcept { return major == 9 && minor == 0 && code == 90; }
};

// Makes device `index` current. Throws Error{kDevice} without a driver or such a device, and
// Error{kUnsupported} for one below compute capability 8.0.
DeviceInfo open_device(int index);

}  // namespace baltoro::cuda
