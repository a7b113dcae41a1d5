// Large bf16 products by cuBLASLt, which is opened when first needed and never linked.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "core/dtype.h"

namespace baltoro::cuda {

// out [M, N] = x [M, K] w [N, K]^T, all dense, x and w bf16, f32 sums.
struct Gemm {
  const void* x;
  const void* w;
  void* out;
  std::int64_t m, n, k;
  DType out_dtype;  // kBf16 or kF32
};

// One thread at a time. Which algorithm serves a shape is asked once and kept.
class CublasLt {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // Whether this machine has the library and it has an algorithm for the shape and alignment.
  bool serves(const Gemm& gemm);
  // Throws Error{kDevice} where the call fails. workspace: kWorkspaceBytes of device memory.
  void multiply(const Gemm& gemm, void* workspace, cudaStream_t stream);

 private:
  struct Library;
  struct Plan;
  struct Key {
    std::int64_t m, n, k;
    DType out_dtype;
    bool aligned;  // x, w and out to 16 bytes, else to 2 (4 for f32)
    auto operator<=>(const Key&) const = default;
  };
  const Plan* plan(const Gemm& gemm);

  bool opened_ = false;
  std::unique_ptr<Library> library_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace baltoro::cuda
