#include "io/checkpoint_files.h"

#include <algorithm>

#include "core/error.h"
#include "io/json_file.h"
#include "io/listing.h"

namespace baltoro {
namespace {

constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{1} << 30;
constexpr const char* kSingleName = "model.safetensors";
constexpr std::size_t kMaxListed = 20;

std::string listed(const std::vector<std::string>& names) {
  return list_names(names, names.size(), kMaxListed);
}

// The events of an index: half a million entries for K3, so no document is built.
class IndexReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  IndexReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  bool found_weight_map() const { return found_weight_map_; }
  SafetensorsIndex take() { return std::move(index_); }

  bool null() override { return other_value("null"); }
  bool boolean(bool) override { return other_value("a boolean"); }
  bool number_integer(number_integer_t) override { return other_value("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other_value("a number"); }
  bool binary(binary_t&) override { return other_value("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (in_metadata_ && depth_ == 2 && key_ == "total_size") index_.declared_bytes = value;
    return other_value("a number");
  }

  bool string(string_t& file) override {
    if (!in_weight_map_ || depth_ != 2) return other_value("a string");
    const bool plain = !file.empty() && file != "." && file != ".." &&
                       file.find('/') == std::string::npos && file.find('\0') == std::string::npos;
    if (!plain) {
      fail(ErrorCode::kBadModel,
           "{}: tensor {}: the file \"{}\" is not a plain name inside the directory", where_, key_,
           file);
    }
    const auto next = static_cast<std::uint32_t>(index_.files.size());
    const auto [entry, is_new] = file_ids_.try_emplace(file, next);
    if (is_new) index_.files.push_back(file);
    if (!index_.file_of_tensor.try_emplace(key_, entry->second).second) {
      fail(ErrorCode::kBadModel, "{}: tensor {} stands twice in weight_map", where_, key_);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (in_weight_map_ && depth_ == 2) return other_value("an object");
    enter();
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) fail(ErrorCode::kBadModel, "{}: expected an object, found an array", where_);
    other_value("an array");
    enter();
    return true;
  }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

  bool key(string_t& name) override {
    key_ = name;
    if (depth_ != 1) return true;
    in_weight_map_ = name == "weight_map";
    in_metadata_ = name == "metadata";
    if (in_weight_map_ && found_weight_map_) {
      fail(ErrorCode::kBadModel, "{}: weight_map stands twice", where_);
    }
    found_weight_map_ = found_weight_map_ || in_weight_map_;
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception& error) override {
    fail(ErrorCode::kBadModel, "{}: {}", where_, json_fault(text_, byte, error.what()));
  }

 private:
  bool other_value(const char* what) {
    if (depth_ == 0) fail(ErrorCode::kBadModel, "{}: expected an object, found {}", where_, what);
    if (in_weight_map_) {
      fail(ErrorCode::kBadModel, "{}: weight_map: {}: expected a file name, found {}", where_,
           depth_ == 2 ? key_ : "(its value)", what);
    }
    return true;
  }
  void enter() {
    if (++depth_ > 64) fail(ErrorCode::kBadModel, "{}: nested deeper than 64 levels", where_);
  }
  bool leave() {
    if (--depth_ == 1) in_weight_map_ = in_metadata_ = false;
    return true;
  }

  std::string_view text_;
  const std::string& where_;
  SafetensorsIndex index_;
  std::unordered_map<std::string, std::uint32_t> file_ids_;
  std::string key_;
  int depth_ = 0;
  bool in_weight_map_ = false;
  bool in_metadata_ = false;
  bool found_weight_map_ = false;
};

// The one safetensors file of a directory without an index.
std::filesystem::path single_file(const std::filesystem::path& dir) {
  if (std::filesystem::exists(dir / kSingleName)) return dir / kSingleName;
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() == ".safetensors") found.push_back(entry.path());
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    fail(ErrorCode::kBadModel, "{}: no .safetensors file; fetch the checkpoint's weights",
         dir.string());
  }
  fail(ErrorCode::kBadModel,
       "{}: {} .safetensors files and no {}; expected an index or exactly one file; fetch the "
       "checkpoint's index",
       dir.string(), found.size(), kSafetensorsIndexName);
}

}  // namespace

void refuse_checkpoint(const std::filesystem::path& dir) {
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    const std::filesystem::path name = entry.path().filename();
    if (name.extension() == ".safetensors" || name == kSafetensorsIndexName ||
        name == "config.json") {
      fail(ErrorCode::kUsage, "{} holds a model already; give an empty directory", dir.string());
    }
  }
}

SafetensorsIndex parse_safetensors_index(std::string_view json, const std::string& where) {
  IndexReader reader(json, where);
  nlohmann::json::sax_parse(json, &reader);
  if (!reader.found_weight_map()) {
    fail(ErrorCode::kBadModel, "{}: the key weight_map is missing", where);
  }
  return reader.take();
}

CheckpointFiles::CheckpointFiles(const std::filesystem::path& path) : path_(path) {
  if (!std::filesystem::exists(path)) {
    fail(ErrorCode::kBadModel,
         "{}: no such directory; give a checkpoint's directory (config.json, *.safetensors)",
         path.string());
  }
  if (!std::filesystem::is_directory(path)) {
    add_file(path);
    build_lookup();
    return;
  }
  const std::filesystem::path index_path = path / kSafetensorsIndexName;
  if (!std::filesystem::exists(index_path)) {
    add_file(single_file(path));
    build_lookup();
    return;
  }
  const std::string where = index_path.string();
  const SafetensorsIndex index =
      parse_safetensors_index(read_text_file(index_path, kMaxIndexBytes), where);
  std::vector<std::string> missing;
  for (const std::string& file : index.files) {
    if (!std::filesystem::exists(path / file)) missing.push_back(file);
  }
  if (!missing.empty()) {
    std::sort(missing.begin(), missing.end());
    fail(ErrorCode::kBadModel, "{}: {} of {} shards {} missing: {}; fetch {} again", where,
         missing.size(), index.files.size(), missing.size() == 1 ? "is" : "are", listed(missing),
         missing.size() == 1 ? "it" : "them");
  }
  tensors_.reserve(index.file_of_tensor.size());
  for (const std::string& file : index.files) add_file(path / file);
  build_lookup();
  check_against(index, where);
}

void CheckpointFiles::add_file(const std::filesystem::path& path) {
  const auto id = static_cast<std::uint32_t>(files_.size());
  files_.emplace_back(path);
  SafetensorsHeader header = read_safetensors_header(files_.back());
  for (TensorInfo& tensor : header.tensors) {
    tensor.file = id;
    total_bytes_ += tensor.bytes;
    tensors_.push_back(std::move(tensor));
  }
  for (const DataHole& hole : header.holes) holes_.push_back({id, hole});
}

void CheckpointFiles::build_lookup() {
  by_name_.reserve(tensors_.size());
  for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
    const auto [entry, is_new] = by_name_.try_emplace(tensors_[i].name, i);
    if (!is_new) {
      fail(ErrorCode::kBadModel, "{}: tensor {} stands in two files: {} and {}", path_.string(),
           tensors_[i].name, file_name(tensors_[entry->second]), file_name(tensors_[i]));
    }
  }
}

void CheckpointFiles::check_against(const SafetensorsIndex& index, const std::string& where) const {
  std::vector<std::string> missing;
  std::vector<std::string> unlisted;
  for (const auto& [name, file] : index.file_of_tensor) {
    const TensorInfo* tensor = find(name);
    if (tensor == nullptr) {
      missing.push_back(name);
    } else if (tensor->file != file) {
      fail(ErrorCode::kBadModel, "{}: tensor {}: the index says {}, but it stands in {}", where,
           name, index.files[file], file_name(*tensor));
    }
  }
  for (const TensorInfo& tensor : tensors_) {
    if (!index.file_of_tensor.contains(tensor.name)) unlisted.push_back(tensor.name);
  }
  std::sort(missing.begin(), missing.end());
  if (!missing.empty()) {
    fail(ErrorCode::kBadModel, "{}: {} in none of its files: {}", where,
         counted(missing.size(), "tensor of the index stands", "tensors of the index stand"),
         listed(missing));
  }
  if (!unlisted.empty()) {
    fail(ErrorCode::kBadModel, "{}: {} not in the index: {}", where,
         counted(unlisted.size(), "tensor of the files is", "tensors of the files are"),
         listed(unlisted));
  }
  if (index.declared_bytes != 0 && index.declared_bytes != total_bytes_) {
    fail(ErrorCode::kBadModel, "{}: metadata.total_size is {}, but the tensors have {} bytes",
         where, index.declared_bytes, total_bytes_);
  }
}

const TensorInfo* CheckpointFiles::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

std::string CheckpointFiles::file_name(const TensorInfo& tensor) const {
  return files_[tensor.file].path().filename().string();
}

}  // namespace baltoro
