// Looks up, checks and places single tensors for loader.cc, and collects what is missing or wrong.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "io/weight_store.h"
#include "model/loader.h"
#include "model/weights.h"

namespace baltoro {

// Which dimension of a matrix is split between the ranks.
enum class Split { kNone, kRows, kCols };

class TensorBinder {
 public:
  TensorBinder(WeightStore& store, const Partition& partition)
      : store_(store), partition_(partition), used_(store.files().tensors().size(), false) {}

  // `name`.weight of BF16, F16 or F32, or `name`.weight_packed (U8: MXFP4, I8: MXINT8) and
  // `name`.weight_scale: [rows, cols] of the whole model, of which the view is this rank's part.
  WeightView matrix(const std::string& name, std::int64_t rows, std::int64_t cols,
                    Split split = Split::kNone);
  // The same where groups cannot be read: a packed matrix is wrong.
  WeightView plain_matrix(const std::string& name, std::int64_t rows, std::int64_t cols,
                          Split split = Split::kNone);
  // Elements of a small tensor as f32, this rank's share of the first `used` of them under kRows.
  // The tensor must have one of `shapes`.
  std::vector<float> vector(const std::string& name, std::initializer_list<Shape> shapes,
                            std::int64_t used, Split split = Split::kNone);

  // A head beside tied embeddings: where it is present it must repeat them byte for byte.
  void tied(const std::string& head, const std::string& embedding);
  // A matrix that another rank reads: neither missing nor unused here.
  void ignore(const std::string& name);

  // Throws Error{kBadModel} if anything is missing or wrong.
  void throw_if_bad() const;
  BindReport report() const;

 private:
  const TensorInfo* use(const std::string& name);
  void miss(const std::string& name);
  bool check(const TensorInfo& tensor, const char* dtype, std::initializer_list<Shape> shapes);
  const std::byte* place(const TensorInfo& tensor, Split split);

  WeightStore& store_;
  Partition partition_;
  std::vector<bool> used_;
  std::vector<std::string> missing_;  // the first of them
  std::int64_t num_missing_ = 0;
  std::vector<std::string> wrong_;
};

}  // namespace baltoro
