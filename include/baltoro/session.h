// One token timeline of an engine: KDA state, conv history, MLA cache, logits of the last token.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "baltoro/engine.h"

namespace baltoro {

// A point of a session to come back to. Cheap for the MLA cache (shared pages), one state copy for
// KDA. Outlives its session, not its engine's use.
class Snapshot {
 public:
  Snapshot() = default;
  explicit operator bool() const noexcept { return impl_ != nullptr; }
  std::int64_t position() const noexcept;

  struct Impl;

 private:
  friend class Session;
  std::shared_ptr<const Impl> impl_;
};

// One thread at a time. Movable.
class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Reads tokens as input. Throws Error{kNonFinite} naming the first bad layer; the session then
  // refuses further use.
  void prefill(std::span<const TokenId> tokens);
  // The same, and the logits of every token: [tokens, vocab_size].
  std::vector<float> prefill_all_logits(std::span<const TokenId> tokens);
  // Advances by one token that the model generated.
  void decode(TokenId token);

  // f32 logits [vocab_size] after the last token. Throws Error{kUsage} where there are none: on an
  // empty session, or behind tokens that were computed without (BatchItem::last_logits, draw).
  std::span<const float> logits() const;

  std::int64_t position() const noexcept;  // tokens so far
  std::span<const TokenId> tokens() const noexcept;

  // An independent copy that shares the engine and the cached pages.
  Session fork() const;
  Snapshot snapshot() const;
  // Back to a snapshot of this session, or of one that it was forked from. Throws Error{kUsage} for
  // another engine's.
  void rewind(const Snapshot& snapshot);

  // Writes the whole timeline, with its logits where it has them. Throws Error{kIo}.
  void save(const std::filesystem::path& file) const;
  // Reads it back, in any process with the same model, activation type and backend kind.
  // Throws Error{kBadModel} where the fingerprint, the checksum or the format does not fit.
  static Session restore(Engine& engine, const std::filesystem::path& file);

  Engine& engine() const noexcept;

  struct Impl;

 private:
  friend class Engine;
  friend struct SessionAccess;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace baltoro
