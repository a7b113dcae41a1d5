#include "cuda/device_info.h"

#include "core/error.h"
#include "cuda/check.h"
#include "cuda/device_code.h"

namespace baltoro::cuda {
namespace {

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, index), "read a device attribute");
  return value;
}

}  // namespace

DeviceInfo open_device(int index) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    fail(ErrorCode::kDevice,
         "device cuda:{}: no NVIDIA GPU can be used here ({}); check that `nvidia-smi` lists one, "
         "or "
         "use --device cpu",
         index, cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status));
  }
  if (index >= count) {
    fail(ErrorCode::kDevice,
         "device cuda:{}: this machine has {}; the last is cuda:{}; or use --device cpu", index,
         count == 1 ? "one NVIDIA GPU" : fmt::format("{} NVIDIA GPUs", count), count - 1);
  }
  check(cudaSetDevice(index), "select the device");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "read the device's properties");
  DeviceInfo info;
  info.index = index;
  info.name = properties.name;
  info.major = properties.major;
  info.minor = properties.minor;
  info.num_sms = properties.multiProcessorCount;
  info.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  info.shared_bytes =
      static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index));
  info.memory_bytes = properties.totalGlobalMem;
  if (info.major < 8) {
    fail(
        ErrorCode::kUnsupported,
        "device cuda:{}: {} has compute capability {}.{}; baltoro needs 8.0 (Ampere) or later; use "
        "--device cpu",
        index, info.name, info.major, info.minor);
  }
  info.code = device_code();
  return info;
}

}  // namespace baltoro::cuda
