// CudaBackend: every op of ops/backend.h on one NVIDIA GPU, in order on one stream.
#include "cuda/backend.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "cuda/context.h"
#include "cuda/expert_table.h"
#include "cuda/handle.h"
#include "cuda/host_tasks.h"
#include "cuda/memory.h"
#include "cuda/pass_graphs.h"
#include "ops/head.h"

namespace baltoro {
namespace {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options)
      : device_(cuda::open_device(options.device)),
        name_(fmt::format("cuda:{} {}", device_.index, device_.name)),
        activations_(options.activations),
        stream_(cuda::make_stream()),
        stage_(stream_.get()),
        graphs_(stream_.get()),
        arrived_(cuda::device_buffer(sizeof(unsigned), "a counter")),
        context_{device_,
                 stream_.get(),
                 scratch_,
                 stage_,
                 blas_,
                 activation_dtype(),
                 options.deterministic,
                 static_cast<unsigned*>(arrived_.data())} {}

  std::string_view name() const override { return name_; }
  int num_threads() const override { return 1; }
  Activations activations() const override { return activations_; }
  DType activation_dtype() const override {
    return activations_ == Activations::kBf16 ? DType::kBf16 : DType::kF32;
  }
  DType cache_dtype() const override { return activation_dtype(); }

  bool uses_host_memory() const override { return false; }
  Buffer allocate(std::size_t bytes, const char* purpose) override {
    select();
    graphs_.forget();
    tasks_.forget();
    return cuda::device_buffer(bytes, purpose);
  }
  Buffer allocate_shared(std::size_t bytes, const char* purpose) override {
    select();
    return cuda::pinned_buffer(bytes, purpose);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    select();
    cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()), "copy");
    // With host memory the copy may still be under way.
    if (!cuda::on_device(to) || !cuda::on_device(from)) synchronize();
  }
  void copy_in_order(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()), "copy");
  }
  void run_on_host(std::function<void()> work) override {
    tasks_.enqueue(stream_.get(), std::move(work));
  }
  void clear(void* data, std::size_t bytes) override {
    if (bytes == 0) return;
    select();
    cuda::check(cudaMemsetAsync(data, 0, bytes, stream_.get()), "clear device memory");
  }
  void synchronize() override {
    cuda::check(cudaStreamSynchronize(stream_.get()), "finish the work on the device");
    tasks_.rethrow();
  }
  std::optional<std::uint64_t> free_memory() const override {
    select();
    std::size_t free_bytes = 0, total_bytes = 0;
    cuda::check(cudaMemGetInfo(&free_bytes, &total_bytes), "ask for the free device memory");
    return free_bytes;
  }
  Buffer expert_table(std::span<const ExpertWeights> experts) override {
    select();
    return cuda::make_expert_table(experts, stream_.get());
  }
  void run_pass(const BatchView& batch, const std::function<void()>& ops) override {
    select();
    // What the recorded ops read of the batch is staged before they are recorded or repeated.
    stage_.ints(batch.token_ids);
    if (!batch.draws.empty()) stage_.draws(batch.draws);
    const cuda::DeviceBatch staged = stage_.batch(batch);
    graphs_.run(batch, staged, ops);
  }

  void embed(const EmbedArgs& args) override { cuda::embed(context_, args); }
  void linear(const LinearArgs& args) override { cuda::linear(context_, args); }
  void mix_norm(const MixNormArgs& args) override { cuda::mix_norm(context_, args); }
  void kda_mix(const KdaMixArgs& args) override { cuda::kda_mix(context_, args); }
  void mla_prefill(const MlaArgs& args) override { cuda::mla_prefill(context_, args); }
  void mla_decode(const MlaArgs& args) override { cuda::mla_decode(context_, args); }
  void glu_mlp(const GluMlpArgs& args) override { cuda::glu_mlp(context_, args); }
  void route(const RouteArgs& args) override { cuda::route(context_, args); }
  void expert_mlp(const ExpertMlpArgs& args) override { cuda::expert_mlp(context_, args); }

  void head(const HeadArgs& args) override {
    const std::size_t bytes = logit_bytes(args.rows.size(), args.weight);
    if (bytes == 0) return;
    HeadArgs on_device = args;
    on_device.logits = logits(args.rows.size(), args.weight);
    if (args.bad != nullptr) {
      on_device.bad = reinterpret_cast<std::int32_t*>(on_device.logits + bytes / sizeof(float));
    }
    cuda::head(context_, on_device);
    copy_in_order(args.logits, on_device.logits, bytes);
    if (args.bad != nullptr) {
      copy_in_order(args.bad, on_device.bad, args.rows.size() * sizeof(std::int32_t));
    }
    synchronize();
  }
  void head_draw(const HeadDrawArgs& args) override {
    float* const on_device = logits(args.rows.size(), args.weight);
    cuda::head(context_,
               {.x = args.x, .rows = args.rows, .weight = args.weight, .logits = on_device});
    cuda::draw(context_, on_device, args.weight.rows, args.draws, args.drawn);
  }
  void fetch_logits(std::size_t index, std::span<float> to) override {
    copy_in_order(to.data(), logits_.f32() + index * to.size(), to.size_bytes());
    synchronize();
  }

 private:
  static std::size_t logit_bytes(std::size_t rows, const WeightView& weight) {
    return rows * static_cast<std::size_t>(weight.rows) * sizeof(float);
  }
  // Device memory for the logits of so many rows, and behind them a mark for each.
  float* logits(std::size_t rows, const WeightView& weight) {
    select();
    const std::size_t bytes = logit_bytes(rows, weight) + rows * sizeof(std::int32_t);
    if (logits_.bytes() < bytes) {
      graphs_.forget();
      logits_ = cuda::device_buffer(bytes, "logits");
    }
    return logits_.f32();
  }
  // The runtime's current device belongs to the thread, and any thread may call.
  void select() const { cuda::check(cudaSetDevice(device_.index), "select the device"); }

  cuda::DeviceInfo device_;
  std::string name_;
  Activations activations_;
  cuda::Stream stream_;
  cuda::Scratch scratch_;
  cuda::BatchStage stage_;
  cuda::CublasLt blas_;
  cuda::PassGraphs graphs_;
  cuda::HostTasks tasks_;
  Buffer arrived_;
  cuda::Context context_;
  Buffer logits_;  // of the last head
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

int num_cuda_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

}  // namespace baltoro
