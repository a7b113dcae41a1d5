// No memory plan changes a bit: each fixture runs with its weights in memory, and again with them in
// the files under several plans.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "cpu/backend.h"
#include "e2e/checkpoint.h"
#include "model/loader.h"
#include "model/mapped_weights.h"
#include "model/model.h"
#include "ops/reference/reference_backend.h"
#include "paths.h"

namespace baltoro {
namespace {

// Two passes of a prompt and some generated tokens, as the engine would run them.
class Passes {
 public:
  Passes(const std::filesystem::path& dir, const MemoryPlan& plan, Backend& backend)
      : backend_(backend),
        config_(load_config(dir)),
        store_(dir, {.maps = stays_in_file(plan, config_), .spare_page_cache = true}),
        model_(config_, bind(config_, store_).weights),
        state_(backend, config_),
        workspace_(backend, config_, kPassRows),
        host_workspace_(backend, config_, kPassRows) {
    const auto cut = static_cast<int>(plan.host_layers);
    const auto end = static_cast<int>(config_.num_layers);
    if (cut > 0) segments_.push_back({backend, host_workspace_, 0, cut});
    segments_.push_back({backend, workspace_, cut, end});
    workspace_.expect_arrivals(backend, config_);
    store_.load();
    if (!plan.all_resident()) {
      mapped_ = std::make_unique<MappedWeights>(store_, model_.weights(), plan);
    }
    state_.reserve_slots(2);
    state_.reserve_pages(4);
  }

  // The logits of every row.
  std::vector<float> run() {
    std::vector<TokenId> ids;
    for (TokenId i = 0; i < 140; ++i) ids.push_back((i * 37 + 5) % 90);
    const std::span<const TokenId> all(ids);
    pass(all.subspan(0, kPassRows), Origin::kPrompt);
    pass(all.subspan(kPassRows, 8), Origin::kPrompt);
    for (std::size_t i = kPassRows + 8; i < ids.size(); ++i) {
      pass(all.subspan(i, 1), Origin::kGenerated);
    }
    return logits_;
  }

  const WeightStore& store() const { return store_; }
  const MappedWeights& mapped() const { return *mapped_; }

 private:
  static constexpr std::int64_t kPassRows = 128;

  void pass(std::span<const TokenId> ids, Origin origin) {
    const auto rows = static_cast<std::int64_t>(ids.size());
    const SequenceRows sequence{.first_row = 0,
                                .num_rows = rows,
                                .start_pos = position_,
                                .state_slot = 0,
                                .boundary_slot = origin == Origin::kPrompt ? 1 : -1,
                                .origin = origin,
                                .pages = pages_};
    const BatchView batch{ids, {&sequence, 1}};
    const ConstTensorView normed = model_.forward(segments_, batch, state_, mapped_.get());
    if (mapped_) mapped_->enter_head();
    const auto vocab = static_cast<std::size_t>(config_.vocab_size);
    const auto last = static_cast<std::int32_t>(rows - 1);
    logits_.resize(logits_.size() + vocab);
    model_.logits(backend_, normed, {&last, 1}, &*(logits_.end() - std::ptrdiff_t(vocab)));
    position_ += rows;
  }

  Backend& backend_;
  ModelConfig config_;
  WeightStore store_;
  Model model_;
  SequenceState state_;
  Workspace workspace_, host_workspace_;
  std::vector<Segment> segments_;
  std::unique_ptr<MappedWeights> mapped_;
  std::vector<std::int32_t> pages_ = {0, 1, 2, 3};
  std::vector<float> logits_;
  std::int64_t position_ = 0;
};

class EachFixture : public ::testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path dir_ = test_data_dir() / "fixtures" / GetParam();
  WeightSizes sizes_ = weight_sizes(CheckpointFiles(dir_), load_config(dir_));

  void expect_same(const MemoryPlan& plan, Backend& backend) {
    if (expected_.empty()) expected_ = Passes(dir_, {.resident = sizes_.total()}, backend).run();
    Passes paged(dir_, plan, backend);
    const std::vector<float> got = paged.run();
    ASSERT_EQ(got.size(), expected_.size());
    EXPECT_EQ(std::memcmp(got.data(), expected_.data(), got.size() * sizeof(float)), 0);
    EXPECT_GT(paged.store().mapped_bytes(), 0u);
    EXPECT_GT(paged.mapped().bytes_read(), 0u);
  }

  std::vector<float> expected_;  // with all weights in memory
};

TEST_P(EachFixture, ExpertsInTheFiles) {
  if (sizes_.experts == 0) GTEST_SKIP() << "the model has no routed experts";
  const auto backend = make_cpu_backend({.num_threads = 2, .isa = std::nullopt});
  const std::uint64_t page = 4096;
  // Below one expert, a few, half of them.
  for (std::uint64_t cache : {page, 40 * page, sizes_.experts / 2}) {
    expect_same({.experts = sizes_.experts, .expert_cache = cache}, *backend);
  }
}

TEST_P(EachFixture, TrunkInTheFiles) {
  const auto backend = make_cpu_backend({.num_threads = 2, .isa = std::nullopt});
  const auto layers = static_cast<std::int64_t>(sizes_.trunk.size());
  const std::uint64_t trunk = sizes_.total() - sizes_.experts;
  for (bool copies : {true, false}) {
    for (std::int64_t streamed : {std::int64_t{1}, layers}) {
      expect_same({.copies = copies,
                   .streamed = trunk,
                   .streamed_layers = streamed,
                   .head_streamed = streamed == layers,
                   .experts = sizes_.experts,
                   .expert_cache = 40 * 4096},
                  *backend);
    }
  }
}

// What a device would have lies behind the host's layers, of which the last is in the files.
TEST_P(EachFixture, LayersOfTheHostBeforeThoseOfADevice) {
  const auto backend = make_cpu_backend({.num_threads = 1, .isa = std::nullopt});
  const auto layers = static_cast<std::int64_t>(sizes_.trunk.size());
  for (std::int64_t host = 1; host < layers; ++host) {
    expect_same({.streamed = sizes_.trunk[static_cast<std::size_t>(host - 1)],
                 .streamed_layers = 1,
                 .experts = sizes_.experts,
                 .expert_cache = 40 * 4096,
                 .device_layers = layers - host,
                 .host_layers = host},
                *backend);
  }
}

TEST_P(EachFixture, TheReferenceAsksForItsExpertsToo) {
  if (sizes_.experts == 0) GTEST_SKIP() << "the model has no routed experts";
  const auto backend = make_reference_backend(Activations::kF32);
  expect_same({.experts = sizes_.experts, .expert_cache = 3 * 4096}, *backend);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, EachFixture,
                         ::testing::Values("k3", "kimi_linear", "dense_only", "no_shared"));

}  // namespace
}  // namespace baltoro
