#include "baltoro/session.h"

#include <mutex>
#include <utility>

#include "core/error.h"
#include "engine/engine_impl.h"
#include "engine/session_impl.h"

namespace baltoro {
namespace {

[[noreturn]] void throw_item_error(const BatchItem& item) { throw Error(*item.error); }

}  // namespace

Session::Impl::~Impl() {
  if (timeline == nullptr) return;
  const std::lock_guard lock(engine->impl_->mutex);
  timeline.reset();
}

Snapshot::Impl::~Impl() {
  const std::lock_guard lock(engine->impl_->mutex);
  timeline.reset();
}

std::int64_t Snapshot::position() const noexcept { return impl_ ? impl_->timeline->position() : 0; }

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

void Session::prefill(std::span<const TokenId> tokens) {
  BatchItem item{.session = this, .tokens = tokens, .origin = Origin::kPrompt};
  engine().forward({&item, 1});
  if (item.error) throw_item_error(item);
}

std::vector<float> Session::prefill_all_logits(std::span<const TokenId> tokens) {
  std::vector<float> logits;
  BatchItem item{
      .session = this, .tokens = tokens, .origin = Origin::kPrompt, .all_logits = &logits};
  engine().forward({&item, 1});
  if (item.error) throw_item_error(item);
  return logits;
}

void Session::decode(TokenId token) {
  BatchItem item{.session = this, .tokens = {&token, 1}, .origin = Origin::kGenerated};
  engine().forward({&item, 1});
  if (item.error) throw_item_error(item);
}

std::span<const float> Session::logits() const {
  const Timeline& timeline = *impl_->timeline;
  if (!timeline.failure.empty()) {
    fail(ErrorCode::kUsage, "the session failed before: {}; start a new one", timeline.failure);
  }
  if (timeline.logits.empty()) {
    fail(ErrorCode::kUsage, "the session has {}, so no logits: call prefill first",
         timeline.tokens.empty() ? "no tokens yet" : "computed its last token without them");
  }
  return timeline.logits.values();
}

std::int64_t Session::position() const noexcept { return impl_->timeline->position(); }

std::span<const TokenId> Session::tokens() const noexcept { return impl_->timeline->tokens; }

Session Session::fork() const {
  const std::lock_guard lock(engine().impl_->mutex);
  return Session(std::make_unique<Impl>(impl_->engine, impl_->timeline->clone()));
}

Snapshot Session::snapshot() const {
  const std::lock_guard lock(engine().impl_->mutex);
  Snapshot snapshot;
  snapshot.impl_ = std::make_shared<const Snapshot::Impl>(impl_->engine, impl_->timeline->clone());
  return snapshot;
}

void Session::rewind(const Snapshot& snapshot) {
  if (!snapshot) fail(ErrorCode::kUsage, "cannot rewind to an empty snapshot");
  if (snapshot.impl_->engine != impl_->engine) {
    fail(ErrorCode::kUsage, "the snapshot belongs to another engine; take one from this session");
  }
  const std::lock_guard lock(engine().impl_->mutex);
  impl_->timeline = snapshot.impl_->timeline->clone();
}

void Session::save(const std::filesystem::path& file) const {
  const std::lock_guard lock(engine().impl_->mutex);
  save_timeline(*impl_->timeline, engine().info(), file);
}

Session Session::restore(Engine& engine, const std::filesystem::path& file) {
  const std::lock_guard lock(engine.impl_->mutex);
  return Session(std::make_unique<Impl>(engine.shared_from_this(),
                                        restore_timeline(engine.impl_->pool, engine.info(), file)));
}

void SessionAccess::close_prompt(Session& session) {
  const std::lock_guard lock(session.impl_->engine->impl_->mutex);
  session.impl_->timeline->close_prompt();
}

void SessionAccess::drop_logits(Session& session) { session.impl_->timeline->logits = {}; }

std::uint64_t SessionAccess::own_bytes(const Session& session) {
  const Timeline& timeline = *session.impl_->timeline;
  const std::uint64_t slots = timeline.boundary_slot < 0 ? 1 : 2;
  return slots * timeline.pool().state().slot_bytes() +
         timeline.tokens.capacity() * sizeof(TokenId) + timeline.logits.bytes();
}

const std::vector<std::int32_t>& SessionAccess::pages(const Session& session) {
  return session.impl_->timeline->pages;
}

Session SessionAccess::copy(const Session& session) {
  Session own = session.fork();
  const std::lock_guard lock(own.impl_->engine->impl_->mutex);
  own.impl_->timeline->own_pages(0, own.position());
  return own;
}

void SessionAccess::repeat_past(Session& session, std::int64_t position) {
  const std::lock_guard lock(session.impl_->engine->impl_->mutex);
  session.impl_->timeline->repeat_past(position);
}

void SessionAccess::reserve(Engine& engine, std::int64_t slots, std::int64_t pages) {
  Engine::Impl& impl = *engine.impl_;
  const std::lock_guard lock(impl.mutex);
  if (!impl.backend->uses_host_memory()) return;
  try {
    impl.pool.reserve_slots(static_cast<std::int32_t>(slots));
    impl.pool.reserve_pages(static_cast<std::int32_t>(pages));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
  }
}

Engine& Session::engine() const noexcept { return *impl_->engine; }

}  // namespace baltoro
