// Sessions over real (tiny) checkpoints: forks, snapshots, saved state, damaged weights.
#include "baltoro/session.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "engine/allocation_counter.h"
#include "engine/sessions.h"
#include "io/checkpoint_files.h"
#include "io/test_files.h"

namespace baltoro {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<Engine> load(const std::string& name, EngineOptions options = {}) {
  return Engine::load(fixture(name), options);
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

// Callers on threads of their own: the engine lets one in at a time.
TEST(EngineThreads, OfManyCallersGiveTheBitsOfOne) {
  const auto engine = load("k3", {.num_threads = 2});
  const auto use = [&](int salt) {
    Session session = engine->new_session();
    session.prefill(prompt(70, salt));
    const Snapshot point = session.snapshot();
    Session fork = session.fork();
    greedy(fork, 2);
    session.prefill(prompt(5));
    session.rewind(point);
    greedy(session, 2);
    return std::vector<float>(session.logits().begin(), session.logits().end());
  };
  std::vector<std::vector<float>> alone(4), together(4);
  for (std::size_t i = 0; i < alone.size(); ++i) alone[i] = use(static_cast<int>(i));
  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < together.size(); ++i) {
    callers.emplace_back([&, i] { together[i] = use(static_cast<int>(i)); });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(alone, together);
}

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

TEST_F(SavedSession, MayBeWithoutLogits) {
  const auto engine = load("k3");
  Session session = engine->new_session();
  const std::vector<TokenId> tokens = prompt(70);
  BatchItem item{.session = &session, .tokens = tokens, .last_logits = false};
  engine->forward({&item, 1});
  session.save(file_);
  Session restored = Session::restore(*engine, file_);
  EXPECT_THROW(static_cast<void>(restored.logits()), Error);
  restored.decode(3);
  session.decode(3);
  EXPECT_TRUE(same_bits(session.logits(), restored.logits()));
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
  void SetUp() override { copy_with_nan_row("k3", dir_.path()); }

  TempDir dir_;
};

TEST_F(DamagedRow, FailsItsRequestNamesTheLayerAndSparesNeighbours) {
  const auto engine = Engine::load(dir_.path());
  const std::vector<TokenId> clean = prompt(70), bad_ids = {1, 2, kNanToken, 3};
  Session alone = engine->new_session();
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
    const std::int64_t before = baltoro::testing::allocation_count();
    for (TokenId token = 0; token < 32; ++token) session.decode(token);
    EXPECT_EQ(baltoro::testing::allocation_count() - before, 0) << model;
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
    // Without CUDA; with it, there is no such device.
    EXPECT_TRUE(error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kDevice);
  }
  EXPECT_THROW(load("k3", {.max_batch_rows = 100}), Error);
  EXPECT_THROW(load("k3", {.isa = "pdp11"}), Error);
}

}  // namespace
}  // namespace baltoro
