// Shorthand for the tests that run sessions over the committed fixtures.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "baltoro/session.h"
#include "io/checkpoint_files.h"
#include "io/weight_store.h"
#include "paths.h"

namespace baltoro {

inline std::filesystem::path fixture(const std::string& name) {
  return test_data_dir() / "fixtures" / name;
}

// Token ids below 77, within every fixture's vocabulary.
inline std::vector<TokenId> prompt(std::size_t length, int salt = 0) {
  std::vector<TokenId> ids(length);
  for (std::size_t i = 0; i < length; ++i) {
    ids[i] = static_cast<TokenId>((i * 37 + static_cast<std::size_t>(salt) * 11 + 5) % 77);
  }
  return ids;
}

// Bit equality: a NaN equals itself, -0 differs from 0.
inline ::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " and " << b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return ::testing::AssertionFailure() << "at " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// A token that prompt() never gives, and whose row of the embedding copy_with_nan_row() damages.
inline constexpr TokenId kNanToken = 77;

inline void copy_with_nan_row(const std::string& name, const std::filesystem::path& dir) {
  std::filesystem::copy(fixture(name), dir, std::filesystem::copy_options::recursive);
  const CheckpointFiles files(dir);
  const auto embedding = std::ranges::find_if(files.tensors(), [](const TensorInfo& tensor) {
    return tensor.name.ends_with("model.embed_tokens.weight");
  });
  ASSERT_NE(embedding, files.tensors().end());
  const auto bytes = static_cast<std::size_t>(WeightStore::row_bytes(*embedding));
  std::fstream io(files.files()[embedding->file].path(),
                  std::ios::binary | std::ios::in | std::ios::out);
  io.seekp(static_cast<std::streamoff>(embedding->offset + kNanToken * bytes));
  io << std::string(bytes, '\xff');
}

}  // namespace baltoro
