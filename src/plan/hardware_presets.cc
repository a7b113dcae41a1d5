// Public numbers of machines (docs/cost-model.md): dense peaks, links in one direction.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "core/suggest.h"
#include "plan/device_preset.h"
#include "plan/hardware.h"
#include "plan/key_value.h"

namespace baltoro::plan {
namespace {

constexpr double kGB = 1e9;
constexpr double kTB = 1e12;
constexpr double kTera = 1e12;
constexpr double kMicro = 1e-6;

constexpr const char* kSpecs = "InferenceX gpu-specs";
constexpr const char* kVendor = "vendor datasheet, from memory";
constexpr const char* kBlis = "inference-sim hardware.json";
constexpr const char* kDeepEp = "DeepEP benchmarks and issues";
constexpr const char* kFlashKda = "fit to FlashKDA's published runs";
constexpr const char* kServing =
    "fit to published batch-1 serving over 0.75 of the roofline, less two all-reduces";
constexpr const char* kAllReduce = "small all-reduce of public serving stacks";

struct Row {
  const char* name;
  const char* title;
  double memory_gb, bandwidth_tb, bf16, fp8, fp4;  // GB, TB/s, TFLOP/s
  double scale_up;                                 // GB/s
  int domain;
  double scale_out;  // GB/s
  const char* source;
  enum class Kind : std::uint8_t { kHopper, kBlackwell, kAmpere, kMesh, kDesktop, kHost } kind;
  int processors;
};

using enum Row::Kind;

constexpr std::array<Row, 19> kRows = {{
    {"a100", "A100-80 SXM", 80, 2.04, 312, 0, 0, 300, 8, 25, kBlis, kAmpere, 108},
    {"h100", "H100 SXM", 80, 3.35, 989, 1979, 0, 450, 8, 50, kSpecs, kHopper, 132},
    {"h800", "H800", 80, 3.35, 989, 1979, 0, 200, 8, 50, kDeepEp, kHopper, 132},
    {"h200", "H200 SXM", 141, 4.8, 989, 1979, 0, 450, 8, 50, kSpecs, kHopper, 132},
    {"h20", "H20 96 GB", 96, 4.0, 148, 296, 0, 450, 8, 50, kVendor, kHopper, 78},
    {"h20-141", "H20 141 GB", 141, 4.8, 148, 296, 0, 450, 8, 50, kVendor, kHopper, 78},
    {"b200", "B200", 180, 8.0, 2250, 4500, 9000, 900, 8, 50, kSpecs, kBlackwell, 148},
    {"b300", "B300", 268, 8.0, 2250, 4500, 13500, 900, 8, 100, kSpecs, kBlackwell, 148},
    {"gb200", "GB200 NVL72", 186, 8.0, 2500, 5000, 10000, 900, 72, 50, kSpecs, kBlackwell, 152},
    {"gb300", "GB300 NVL72", 278, 8.0, 2500, 5000, 15000, 900, 72, 100, kSpecs, kBlackwell, 152},
    {"mi300x", "MI300X", 192, 5.3, 1307, 2615, 0, 448, 8, 50, kSpecs, kMesh, 304},
    {"mi355x", "MI355X", 288, 8.0, 2516, 5033, 10066, 538, 8, 50, kSpecs, kMesh, 256},
    {"rtx4090", "RTX 4090, FP32 accumulation", 24, 1.008, 165, 330, 0, 32, 8, 0, kVendor, kDesktop,
     128},
    {"rtx5090", "RTX 5090", 32, 1.792, 210, 419, 1676, 64, 8, 0, kVendor, kDesktop, 170},
    {"gb10", "DGX Spark GB10", 128, 0.273, 125, 250, 500, 0, 1, 25, kVendor, kDesktop, 48},
    {"m3-ultra", "Mac Studio M3 Ultra 512 GB, 75 % for the GPU", 384, 0.819, 28.4, 0, 0, 0, 1, 8,
     kVendor, kDesktop, 80},
    {"epyc-9005", "EPYC 9005, one socket, 12 channels DDR5-6400", 3000, 0.614, 40, 0, 0, 100, 2, 50,
     kVendor, kHost, 128},
    {"xeon-6980p", "Xeon 6980P, one socket, 12 channels MRDIMM-8800", 3000, 0.845, 500, 0, 0, 100,
     2, 50, kVendor, kHost, 128},
    {"xeon-6248", "2 Xeon 6248, 12 channels DDR4-2666", 1500, 0.256, 3.2, 0, 0, 0, 1, 10, kVendor,
     kHost, 40},
}};

Quantity sheet(double value, const char* source) { return {value, Provenance::kDatasheet, source}; }
Quantity typical(double value, const char* source) { return {value, Provenance::kTypical, source}; }

// Kernel constants that a family of GPUs shares.
void add_kernels(Hardware& hardware, const Row& row) {
  if (row.kind == kHost) return;
  const bool blackwell = row.kind == kBlackwell;
  hardware.processors = sheet(row.processors, row.source);
  hardware.scan_chunk_seconds = typical((blackwell ? 7.5 : 11.5) * kMicro, kFlashKda);
  hardware.layer_seconds = typical((blackwell ? 30 : 100) * kMicro, kServing);
  hardware.scale_up_latency = typical(10 * kMicro, kAllReduce);
  hardware.scale_out_latency = typical(20 * kMicro, kAllReduce);
}

// What stands behind the device: a desktop's or a server's memory.
void add_tiers(Hardware& hardware, const Row& row) {
  if (std::string_view(row.name).starts_with("rtx")) {
    hardware.dram_bandwidth = sheet(89.6 * kGB, "two channels of DDR5-5600");
    hardware.host_link_bandwidth = sheet(row.scale_up * kGB, row.source);
  } else if (row.kind != kDesktop && row.kind != kHost) {
    hardware.dram_bandwidth = typical(600 * kGB, "a host of two sockets, 8 channels of DDR5-4800");
  }
}

Hardware make(const Row& row) {
  Hardware hardware;
  hardware.name = row.name;
  hardware.title = row.title;
  hardware.memory_bytes = sheet(row.memory_gb * kGB, row.source);
  hardware.memory_bandwidth = sheet(row.bandwidth_tb * kTB, row.source);
  hardware.bf16_flops = sheet(row.bf16 * kTera, row.source);
  hardware.fp8_flops = sheet(row.fp8 * kTera, row.source);
  hardware.fp4_flops = sheet(row.fp4 * kTera, row.source);
  hardware.scale_up_bandwidth = sheet(row.scale_up * kGB, row.source);
  hardware.scale_up_domain = row.domain;
  hardware.scale_out_bandwidth = sheet(row.scale_out * kGB, row.source);
  hardware.in_switch_reduction = row.kind == kHopper || row.kind == kBlackwell;
  if (hardware.name == "h800") hardware.scale_up_real = typical(160 * kGB, kDeepEp);
  if (hardware.name.starts_with("h20") && hardware.name != "h200") {
    hardware.scale_up_real = typical(337 * kGB, kDeepEp);
  }
  add_kernels(hardware, row);
  add_tiers(hardware, row);
  return hardware;
}

}  // namespace

std::vector<std::string> hardware_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

std::optional<Hardware> preset_of_device(std::string_view name) {
  // Words that say what the preset is anyway.
  constexpr std::array<std::string_view, 9> kSame = {"nvidia", "geforce", "sxm4", "sxm5", "hbm2e",
                                                     "hbm3",   "hbm3e",   "80gb", "141gb"};
  std::string model;
  std::string word;
  const auto take = [&] {
    if (std::ranges::find(kSame, word) == kSame.end()) model += word;  // "rtx 4090" is one
    word.clear();
  };
  for (const char c : name) {
    if (c == ' ' || c == '-') {
      take();
    } else {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  take();
  for (const Row& row : kRows) {
    if (model == row.name && row.kind != kHost) return make(row);
  }
  return std::nullopt;
}

HardwareChoice preset_hardware(std::string_view text) {
  HardwareChoice choice;
  std::string_view name = text;
  const std::size_t times = text.find('x');
  const bool counted =
      times != std::string_view::npos && times > 0 && text.find_first_not_of("0123456789") == times;
  if (counted) {
    choice.devices = parse_count("--hw count", text.substr(0, times), 1, 65536);
    name = text.substr(times + 1);
  }
  for (const Row& row : kRows) {
    if (text == row.name) return {make(row), 0};
  }
  for (const Row& row : kRows) {
    if (name != row.name) continue;
    choice.hardware = make(row);
    return choice;
  }
  std::vector<std::string> known = hardware_names();
  known.emplace_back("measured");  // which is not here to be made
  const std::string similar = nearest(name, known);
  fail(ErrorCode::kUsage,
       "--hw {}: no such machine{}; the form is NAME or COUNTxNAME, 8xh200; known: {}", text,
       similar.empty() ? ""
                       : fmt::format(", did you mean {}{}?",
                                     counted ? fmt::format("{}x", choice.devices) : "", similar),
       fmt::join(known, ", "));
}

}  // namespace baltoro::plan
