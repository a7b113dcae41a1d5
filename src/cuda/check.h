// Turns a failed call of the CUDA runtime into Error{kDevice}, or Error{kOutOfMemory} where memory
// was short. No fmt here: .cu files include this.
#pragma once

#include <cuda_runtime_api.h>

namespace baltoro::cuda {

// `what`: the thing that was tried, such as "copy to the device".
void check(cudaError_t status, const char* what);

// An argument that no kernel of an op serves; the text says which and what to do.
[[noreturn]] void unsupported(const char* op, const char* why);

}  // namespace baltoro::cuda
