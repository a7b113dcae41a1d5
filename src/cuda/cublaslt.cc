#include "cuda/cublaslt.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/log.h"

namespace baltoro::cuda {
namespace {

std::vector<std::string> candidates() {
  std::vector<std::string> folders = {""};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr) folders.push_back(std::string(value) + "/lib64/");
  }
  folders.emplace_back("/usr/local/cuda/lib64/");
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
      names.push_back(folder + name);
    }
  }
  return names;
}

void check_blas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(ErrorCode::kDevice, "cuBLASLt could not {}: status {}", what, static_cast<int>(status));
}

bool is_aligned(const Gemm& gemm) {
  const auto bits = reinterpret_cast<std::uintptr_t>(gemm.x) |
                    reinterpret_cast<std::uintptr_t>(gemm.w) |
                    reinterpret_cast<std::uintptr_t>(gemm.out);
  return bits % 16 == 0;
}

}  // namespace

// The functions that are used, found by name.
struct CublasLt::Library {
  void* file = nullptr;
  cublasLtHandle_t handle = nullptr;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithm;
  decltype(&cublasLtMatmulDescCreate) create_product;
  decltype(&cublasLtMatmulDescDestroy) destroy_product;
  decltype(&cublasLtMatmulDescSetAttribute) set_product;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;

  ~Library() {
    if (handle != nullptr) destroy(handle);
    dlclose(file);
  }

  template <typename Function>
  bool find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(file, name));
    return function != nullptr;
  }

  bool find_all() {
    return find("cublasLtCreate", create) && find("cublasLtDestroy", destroy) &&
           find("cublasLtMatmul", matmul) &&
           find("cublasLtMatmulAlgoGetHeuristic", find_algorithm) &&
           find("cublasLtMatmulDescCreate", create_product) &&
           find("cublasLtMatmulDescDestroy", destroy_product) &&
           find("cublasLtMatmulDescSetAttribute", set_product) &&
           find("cublasLtMatrixLayoutCreate", create_layout) &&
           find("cublasLtMatrixLayoutDestroy", destroy_layout) &&
           find("cublasLtMatmulPreferenceCreate", create_preference) &&
           find("cublasLtMatmulPreferenceDestroy", destroy_preference) &&
           find("cublasLtMatmulPreferenceSetAttribute", set_preference);
  }

  static std::unique_ptr<Library> open() {
    for (const std::string& name : candidates()) {
      void* file = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (file == nullptr) continue;
      auto library = std::make_unique<Library>();
      library->file = file;
      if (library->find_all() && library->create(&library->handle) == CUBLAS_STATUS_SUCCESS) {
        return library;
      }
    }
    log::info("no cuBLASLt on this machine: large products take kernels of our own");
    return nullptr;
  }
};

// One shape, ready to run. cuBLASLt counts in columns: there out is [N, M] = w^T x.
struct CublasLt::Plan {
  template <typename T>
  using Owner = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;

  Owner<cublasLtMatmulDesc_t> product{nullptr, nullptr};
  Owner<cublasLtMatrixLayout_t> w{nullptr, nullptr}, x{nullptr, nullptr}, out{nullptr, nullptr};
  cublasLtMatmulAlgo_t algorithm{};
  bool found = false;

  Plan(const Library& library, const Key& key) {
    cublasLtMatmulDesc_t made = nullptr;
    check_blas(library.create_product(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe a product");
    product = {made, library.destroy_product};
    const cublasOperation_t transpose = CUBLAS_OP_T;
    check_blas(
        library.set_product(made, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof(transpose)),
        "describe a product");
    const cudaDataType_t out_type = key.out_dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF;
    w = layout(library, CUDA_R_16BF, key.k, key.n);
    x = layout(library, CUDA_R_16BF, key.k, key.m);
    out = layout(library, out_type, key.n, key.m);
    found = find_algorithm(library, key.aligned ? 16 : 2);
  }

  static Owner<cublasLtMatrixLayout_t> layout(const Library& library, cudaDataType_t type,
                                              std::int64_t rows, std::int64_t cols) {
    cublasLtMatrixLayout_t made = nullptr;
    check_blas(library.create_layout(&made, type, static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(cols), rows),
               "describe a matrix");
    return {made, library.destroy_layout};
  }

  bool find_algorithm(const Library& library, std::uint32_t alignment) {
    cublasLtMatmulPreference_t made = nullptr;
    check_blas(library.create_preference(&made), "state a preference");
    const Owner<cublasLtMatmulPreference_t> preference{made, library.destroy_preference};
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
      check_blas(library.set_preference(made, name, &value, sizeof(value)), "state a preference");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
    for (const auto name :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(name, alignment);
    }
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    const cublasStatus_t status =
        library.find_algorithm(library.handle, product.get(), w.get(), x.get(), out.get(),
                               out.get(), made, 1, &result, &count);
    algorithm = result.algo;
    return status == CUBLAS_STATUS_SUCCESS && count > 0;
  }
};

CublasLt::CublasLt() = default;
CublasLt::~CublasLt() = default;

const CublasLt::Plan* CublasLt::plan(const Gemm& gemm) {
  if (!opened_) library_ = Library::open();
  opened_ = true;
  if (library_ == nullptr) return nullptr;
  const Key key{gemm.m, gemm.n, gemm.k, gemm.out_dtype, is_aligned(gemm)};
  std::unique_ptr<Plan>& plan = plans_[key];
  if (plan == nullptr) plan = std::make_unique<Plan>(*library_, key);
  return plan->found ? plan.get() : nullptr;
}

bool CublasLt::serves(const Gemm& gemm) { return plan(gemm) != nullptr; }

void CublasLt::multiply(const Gemm& gemm, void* workspace, cudaStream_t stream) {
  const Plan* plan = this->plan(gemm);
  BALTORO_CHECK(plan != nullptr, "cuBLASLt has no algorithm for this shape");
  const float one = 1, zero = 0;
  check_blas(
      library_->matmul(library_->handle, plan->product.get(), &one, gemm.w, plan->w.get(), gemm.x,
                       plan->x.get(), &zero, gemm.out, plan->out.get(), gemm.out, plan->out.get(),
                       &plan->algorithm, workspace, kWorkspaceBytes, stream),
      "multiply");
}

}  // namespace baltoro::cuda
