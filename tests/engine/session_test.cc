// Sessions over real (tiny) checkpoints: the determinism contract, forks, snapshots, saved state,
// damaged weights.
#include "baltoro/session.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "engine/allocation_counter.h"
#include "io/checkpoint_files.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;

fs::path fixture(const std::string& name) {
  return fs::path(BALTORO_TEST_DATA) / "fixtures" / name;
}

std::shared_ptr<Engine> load(const std::string& name, EngineOptions options = {}) {
  return Engine::load(fixture(name), options);
}

// Token ids within every fixture's vocabulary.
std::vector<TokenId> prompt(std::size_t length, int salt = 0) {
  std::vector<TokenId> ids(length);
  for (std::size_t i = 0; i < length; ++i) {
    ids[i] = static_cast<TokenId>((i * 37 + static_cast<std::size_t>(salt) * 11 + 5) % 90);
  }
  return ids;
}

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

// Bit equality: a NaN equals itself, -0 differs from 0.
::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " and " << b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return ::testing::AssertionFailure() << "at " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

std::vector<TokenId> greedy(Session& session, int count) {
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i) {
    const auto logits = session.logits();
    ids.push_back(
        static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    session.decode(ids.back());
  }
  return ids;
}

struct Setting {
  const char* model;
  Activations activations;
};

class Determinism : public ::testing::TestWithParam<Setting> {
 protected:
  std::shared_ptr<Engine> engine(int threads = 1, std::int64_t max_rows = 512) {
    EngineOptions options;
    options.activations = GetParam().activations;
    options.num_threads = threads;
    options.max_batch_rows = max_rows;
    return load(GetParam().model, options);
  }
};

TEST_P(Determinism, SplitOfThePromptChangesNoBit) {
  const auto whole_engine = engine();
  const std::vector<TokenId> ids = prompt(200);
  Session whole = whole_engine->new_session();
  whole.prefill(ids);
  for (std::size_t chunk : {1u, 2u, 3u, 5u, 27u, 63u, 64u, 65u, 130u}) {
    Session split = whole_engine->new_session();
    for (std::size_t begin = 0; begin < ids.size(); begin += chunk) {
      split.prefill(std::span(ids).subspan(begin, std::min(chunk, ids.size() - begin)));
    }
    EXPECT_TRUE(same_bits(whole.logits(), split.logits())) << "chunks of " << chunk;
  }
}

TEST_P(Determinism, RowsOfAPassAndThreadsChangeNoBit) {
  const std::vector<TokenId> ids = prompt(200);
  const auto base_engine = engine();
  Session base = base_engine->new_session();
  const std::vector<float> all = base.prefill_all_logits(ids);
  const std::vector<TokenId> tokens = greedy(base, 8);
  for (const auto& [threads, max_rows] : {std::pair{1, 64}, {2, 128}, {3, 512}, {5, 64}}) {
    const auto other_engine = engine(threads, max_rows);
    Session other = other_engine->new_session();
    EXPECT_TRUE(same_bits(all, other.prefill_all_logits(ids))) << threads << " " << max_rows;
    EXPECT_EQ(tokens, greedy(other, 8));
    EXPECT_TRUE(same_bits(base.logits(), other.logits())) << threads << " threads, " << max_rows;
  }
}

TEST_P(Determinism, NeighboursAndSlotsChangeNoBit) {
  const auto shared = engine(2);
  const std::vector<TokenId> ids = prompt(100);
  Session alone = shared->new_session();
  alone.prefill(ids);
  const std::vector<float> after_prompt = copy(alone.logits());
  alone.decode(7);

  Session a = shared->new_session(), b = shared->new_session(), c = shared->new_session();
  c.prefill(prompt(70, 3));
  const std::vector<TokenId> other = prompt(33, 1);
  const TokenId generated = 9;
  std::vector<BatchItem> items(3);
  items[0] = {.session = &b, .tokens = other, .origin = Origin::kPrompt};
  items[1] = {.session = &c, .tokens = {&generated, 1}, .origin = Origin::kGenerated};
  items[2] = {.session = &a, .tokens = ids, .origin = Origin::kPrompt};
  shared->forward(items);
  EXPECT_TRUE(same_bits(after_prompt, a.logits()));
  const TokenId seven = 7;
  items[0] = {.session = &a, .tokens = {&seven, 1}, .origin = Origin::kGenerated};
  items[1] = {.session = &b, .tokens = {&generated, 1}, .origin = Origin::kGenerated};
  items[2] = {.session = &c, .tokens = other, .origin = Origin::kPrompt};
  shared->forward(items);
  EXPECT_TRUE(same_bits(alone.logits(), a.logits()));
}

TEST_P(Determinism, TheContentOfSevenNeighboursChangesNoBit) {
  const auto shared = engine(2);
  const std::vector<TokenId> ids = prompt(40);
  std::vector<float> expected;
  for (int salt : {0, 1, 2}) {
    std::vector<Session> sessions;
    std::vector<std::vector<TokenId>> prompts;
    for (std::size_t i = 0; i < 8; ++i) {
      sessions.push_back(shared->new_session());
      prompts.push_back(i == 3 ? ids : prompt(20 + 9 * i, salt + static_cast<int>(i)));
    }
    std::vector<BatchItem> items(8);
    for (std::size_t i = 0; i < 8; ++i) items[i] = {.session = &sessions[i], .tokens = prompts[i]};
    shared->forward(items);
    const TokenId token = 5;
    for (BatchItem& item : items) {
      item.tokens = {&token, 1};
      item.origin = Origin::kGenerated;
    }
    shared->forward(items);
    if (expected.empty()) expected = copy(sessions[3].logits());
    EXPECT_TRUE(same_bits(expected, sessions[3].logits())) << "neighbours " << salt;
  }
}

TEST_P(Determinism, ASlotThatHeldAnotherSequenceGivesTheBitsOfAFreshOne) {
  const auto shared = engine();
  const std::vector<TokenId> ids = prompt(66);
  Session fresh = engine()->new_session();
  fresh.prefill(ids);
  for (int round = 0; round < 3; ++round) {
    Session used = shared->new_session();
    used.prefill(prompt(90, round + 1));
    greedy(used, 3);
  }
  Session reused = shared->new_session();
  reused.prefill(ids);
  EXPECT_TRUE(same_bits(fresh.logits(), reused.logits()));
}

TEST_P(Determinism, APromptAfterGeneratedTokensMayBeSplitAnywhere) {
  const auto shared = engine();
  const std::vector<TokenId> second = prompt(90, 4);
  std::vector<float> expected;
  for (std::size_t chunk : {90u, 1u, 17u, 64u}) {
    Session session = shared->new_session();
    session.prefill(prompt(50));
    for (TokenId token : {3, 4, 5}) session.decode(token);
    for (std::size_t begin = 0; begin < second.size(); begin += chunk) {
      session.prefill(std::span(second).subspan(begin, std::min(chunk, second.size() - begin)));
    }
    if (expected.empty()) expected = copy(session.logits());
    EXPECT_TRUE(same_bits(expected, session.logits())) << "chunks of " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Determinism,
    ::testing::Values(Setting{"k3", Activations::kBf16}, Setting{"k3", Activations::kF32},
                      Setting{"kimi_linear", Activations::kBf16}, Setting{"gqa", Activations::kF32},
                      Setting{"kda_only", Activations::kBf16}),
    [](const auto& param_info) {
      return std::string(param_info.param.model) +
             (param_info.param.activations == Activations::kBf16 ? "_bf16" : "_f32");
    });

TEST(SessionFork, BothBranchesGoOnAsIfAlone) {
  const auto engine = load("k3");
  Session trunk = engine->new_session();
  trunk.prefill(prompt(70));
  Session branch = trunk.fork();
  trunk.prefill(prompt(10, 1));
  branch.prefill(prompt(75, 2));
  branch.decode(11);

  Session alone_trunk = engine->new_session(), alone_branch = engine->new_session();
  alone_trunk.prefill(prompt(70));
  alone_trunk.prefill(prompt(10, 1));
  alone_branch.prefill(prompt(70));
  alone_branch.prefill(prompt(75, 2));
  alone_branch.decode(11);
  EXPECT_TRUE(same_bits(alone_trunk.logits(), trunk.logits()));
  EXPECT_TRUE(same_bits(alone_branch.logits(), branch.logits()));
}

TEST(SessionSnapshot, RewindsToTheSameBits) {
  const auto engine = load("k3");
  Session session = engine->new_session();
  session.prefill(prompt(70));
  session.decode(3);
  const Snapshot point = session.snapshot();
  EXPECT_EQ(point.position(), 71);
  const std::vector<TokenId> first = greedy(session, 70);
  session.rewind(point);
  EXPECT_EQ(session.position(), 71);
  EXPECT_EQ(greedy(session, 70), first);
}

TEST(SessionSnapshot, OfAnotherEngineIsRefused) {
  const auto one = load("k3"), two = load("k3");
  Session session = one->new_session(), other = two->new_session();
  session.prefill(prompt(3));
  EXPECT_THROW(other.rewind(session.snapshot()), Error);
  EXPECT_THROW(other.rewind(Snapshot()), Error);
}

class SavedSession : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = fs::path(::testing::TempDir()) /
            (std::string("baltoro_session_") +
             ::testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  void TearDown() override { fs::remove(file_); }

  std::string code_of_restore(Engine& engine) {
    try {
      Session::restore(engine, file_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  fs::path file_;
};

TEST_F(SavedSession, GoesOnInAnotherEngineWithTheSameBits) {
  Session session = load("k3")->new_session();
  session.prefill(prompt(100));
  session.save(file_);
  session.prefill(prompt(40, 1));
  const std::vector<TokenId> tokens = greedy(session, 5);

  const auto other = load("k3", {.num_threads = 2});
  Session restored = Session::restore(*other, file_);
  EXPECT_EQ(restored.position(), 100);
  restored.prefill(prompt(40, 1));
  EXPECT_EQ(greedy(restored, 5), tokens);
  EXPECT_TRUE(same_bits(session.logits(), restored.logits()));
}

TEST_F(SavedSession, OfAnotherProcessGoesOnWithTheSameBits) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int status = 1;
    try {
      Session session = load("k3")->new_session();
      session.prefill(prompt(90));
      session.save(file_);
      status = 0;
    } catch (const std::exception&) {
    }
    _exit(status);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const auto engine = load("k3");
  Session restored = Session::restore(*engine, file_), here = engine->new_session();
  here.prefill(prompt(90));
  EXPECT_TRUE(same_bits(here.logits(), restored.logits()));
  EXPECT_EQ(greedy(here, 5), greedy(restored, 5));
}

TEST_F(SavedSession, AnyFlippedByteIsRefused) {
  const auto engine = load("k3");
  Session session = engine->new_session();
  session.prefill(prompt(20));
  session.save(file_);
  std::ifstream in(file_, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  for (std::size_t at = 0; at < bytes.size(); at += at < 128 ? 1 : bytes.size() / 50) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_NE(code_of_restore(*engine), "") << "byte " << at;
  }
  std::ofstream(file_, std::ios::binary | std::ios::trunc) << bytes.substr(0, bytes.size() - 9);
  EXPECT_NE(code_of_restore(*engine), "");
  std::ofstream(file_, std::ios::binary | std::ios::trunc) << bytes;
  EXPECT_EQ(code_of_restore(*engine), "");
}

// A fine-tuned model: same configuration, same sizes, one changed value in the middle of a file.
TEST_F(SavedSession, OfAModelWithOneChangedTensorIsRefused) {
  Session session = load("k3")->new_session();
  session.prefill(prompt(20));
  session.save(file_);
  const fs::path dir = fs::path(::testing::TempDir()) / "baltoro_fine_tuned";
  fs::remove_all(dir);
  fs::copy(fixture("k3"), dir);
  const CheckpointFiles files(dir);
  const TensorInfo* tensor = files.find("language_model.model.layers.2.self_attn.o_proj.weight");
  ASSERT_NE(tensor, nullptr);
  std::fstream io(dir / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
  io.seekp(static_cast<std::streamoff>(tensor->offset + tensor->bytes / 2));
  io.write("\x3f\x3f", 2);
  io.close();
  EXPECT_NE(code_of_restore(*Engine::load(dir)), "");
  fs::remove_all(dir);
}

TEST_F(SavedSession, OfAnotherModelOrActivationTypeIsRefused) {
  Session session = load("k3")->new_session();
  session.prefill(prompt(20));
  session.save(file_);
  EXPECT_NE(code_of_restore(*load("swiglu")), "");
  EXPECT_NE(code_of_restore(*load("k3", {.activations = Activations::kF32})), "");
}

// A copy of the fixture whose embedding row of one token is NaN.
class DamagedRow : public ::testing::Test {
 protected:
  static constexpr TokenId kBadToken = 77;

  void SetUp() override {
    dir_ = fs::path(::testing::TempDir()) / "baltoro_damaged_row";
    fs::remove_all(dir_);
    fs::copy(fixture("k3"), dir_);
    const fs::path file = dir_ / "model.safetensors";
    std::fstream io(file, std::ios::binary | std::ios::in | std::ios::out);
    std::uint64_t header_bytes = 0;
    io.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
    std::string header(header_bytes, '\0');
    io.read(header.data(), static_cast<std::streamsize>(header_bytes));
    const std::size_t entry = header.find("model.embed_tokens.weight");
    const std::size_t offsets = header.find("data_offsets", entry);
    const std::uint64_t begin = std::stoull(header.substr(header.find('[', offsets) + 1));
    const std::size_t shape = header.find("shape", entry);
    const std::uint64_t hidden = std::stoull(header.substr(header.find(',', shape) + 1));
    const std::uint16_t nan = 0x7fc0;
    io.seekp(static_cast<std::streamoff>(8 + header_bytes + begin + kBadToken * hidden * 2));
    io.write(reinterpret_cast<const char*>(&nan), sizeof(nan));
  }
  void TearDown() override { fs::remove_all(dir_); }

  fs::path dir_;
};

TEST_F(DamagedRow, FailsItsRequestNamesTheLayerAndSparesNeighbours) {
  const auto engine = Engine::load(dir_);
  const std::vector<TokenId> good_ids = prompt(70), bad_ids = {1, 2, kBadToken, 3};
  Session alone = engine->new_session();
  std::vector<TokenId> clean = good_ids;
  for (TokenId& id : clean) id = id == kBadToken ? 1 : id;
  alone.prefill(clean);

  Session good = engine->new_session(), bad = engine->new_session();
  std::vector<BatchItem> items(2);
  items[0] = {.session = &bad, .tokens = bad_ids, .origin = Origin::kPrompt};
  items[1] = {.session = &good, .tokens = clean, .origin = Origin::kPrompt};
  engine->forward(items);
  EXPECT_FALSE(items[1].error.has_value());
  EXPECT_TRUE(same_bits(alone.logits(), good.logits()));
  ASSERT_TRUE(items[0].error.has_value());
  EXPECT_EQ(items[0].error->code(), ErrorCode::kNonFinite);
  EXPECT_NE(std::string(items[0].error->what()).find("the embedding"), std::string::npos);
  EXPECT_THROW(bad.logits(), Error);
  EXPECT_THROW(bad.decode(1), Error);

  // The slot and pages that the failed request leaves are full of NaN; the next owner must not
  // notice.
  bad = engine->new_session();
  bad.prefill(clean);
  EXPECT_TRUE(same_bits(alone.logits(), bad.logits()));

  Session again = engine->new_session();
  EXPECT_THROW(again.prefill(bad_ids), Error);
}

TEST(DecodeAllocations, NoneOverThirtyTwoTokens) {
  for (const char* model : {"k3", "kimi_linear"}) {
    const auto engine = load(model, {.num_threads = 2});
    Session session = engine->new_session();
    session.prefill(prompt(110));  // 32 tokens later a new page has begun
    session.decode(1);
    const std::size_t before = baltoro::testing::allocation_count();
    for (TokenId token = 0; token < 32; ++token) session.decode(token);
    EXPECT_EQ(baltoro::testing::allocation_count() - before, 0u) << model;
  }
}

TEST(WrongUse, GivesTypedErrors) {
  const auto engine = load("k3");
  Session session = engine->new_session();
  EXPECT_THROW(session.logits(), Error);
  const std::vector<TokenId> outside = {1, 100000};
  try {
    session.prefill(outside);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("100000"), std::string::npos);
  }
  EXPECT_EQ(session.position(), 0) << "a refused call leaves the session as it was";
  session.prefill(prompt(3));
  std::vector<BatchItem> twice(2);
  const std::vector<TokenId> ids = prompt(2);
  for (BatchItem& item : twice) item = {.session = &session, .tokens = ids};
  EXPECT_THROW(engine->forward(twice), Error);
  const auto other_engine = load("k3");
  Session foreign = other_engine->new_session();
  std::vector<BatchItem> strangers(1);
  strangers[0] = {.session = &foreign, .tokens = ids};
  EXPECT_THROW(engine->forward(strangers), Error);
  strangers[0].session = nullptr;
  EXPECT_THROW(engine->forward(strangers), Error);
  Session moved = std::move(foreign);
  strangers[0].session = &foreign;
  EXPECT_THROW(other_engine->forward(strangers), Error);
  EXPECT_THROW(load("k3", {.device = "abacus"}), Error);
  EXPECT_THROW(load("k3", {.device = "cuda:x"}), Error);
  try {
    load("k3", {.device = "cuda:1"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
  EXPECT_THROW(load("k3", {.max_batch_rows = 100}), Error);
  EXPECT_THROW(load("k3", {.isa = "pdp11"}), Error);
}

}  // namespace
}  // namespace baltoro
