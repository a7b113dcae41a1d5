// The insides of Session and Snapshot: a timeline and the engine that it lives in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "baltoro/session.h"
#include "engine/timeline.h"

namespace baltoro {

// A timeline whose destruction takes the engine's mutex, as every use of the pools must.
struct Session::Impl {
  Impl(std::shared_ptr<Engine> owner, std::unique_ptr<Timeline> line)
      : engine(std::move(owner)), timeline(std::move(line)) {}
  ~Impl();

  std::shared_ptr<Engine> engine;
  std::unique_ptr<Timeline> timeline;
};

struct Snapshot::Impl {
  Impl(std::shared_ptr<Engine> owner, std::unique_ptr<Timeline> line)
      : engine(std::move(owner)), timeline(std::move(line)) {}
  ~Impl();

  std::shared_ptr<Engine> engine;
  std::unique_ptr<Timeline> timeline;
};

// What the scheduler sees of a session and its engine beyond their interface.
struct SessionAccess {
  // The next token will be a generated one: gives back what only a prompt that goes on needs.
  static void close_prompt(Session& session);
  static void drop_logits(Session& session);
  // Bytes of its own: slots, tokens, logits; not the pages, which it may share.
  static std::uint64_t own_bytes(const Session& session);
  static const std::vector<std::int32_t>& pages(const Session& session);
  // A fork that shares no memory with the session.
  static Session copy(const Session& session);
  // Lengthens the past to `position` tokens by repeating it: cached pages know no position (NoPE),
  // KDA states stay as they are. For benchmarks, where only the sizes count. Both positions are
  // multiples of kBlockTokens, the present one not 0. Throws Error{kOutOfMemory}.
  static void repeat_past(Session& session, std::int64_t position);
  // Makes room in memory of the host, which costs nothing until it is used, so that later growth
  // copies nothing. Does nothing on a device, or where there is not so much.
  static void reserve(Engine& engine, std::int64_t slots, std::int64_t pages);
};

// session_file.cc: the timeline's whole content, guarded by the engine's fingerprint and a
// checksum.
void save_timeline(const Timeline& timeline, const EngineInfo& info,
                   const std::filesystem::path& file);
std::unique_ptr<Timeline> restore_timeline(StatePool& pool, const EngineInfo& info,
                                           const std::filesystem::path& file);

}  // namespace baltoro
