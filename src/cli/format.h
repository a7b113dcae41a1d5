// Numbers as people read them, and text for JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace baltoro::cli {

// 1,560,860,324,864
std::string with_commas(std::uint64_t value);

// "1 tensor", "1,558 tensors"; `noun` takes an s.
std::string counted(std::uint64_t count, const char* noun);
// "1 matrix", "27 matrices".
std::string counted(std::uint64_t count, const char* one, const char* many);

// The double that prints as the float does: 0.7, not the 0.699999988 of its exact value.
double shortest(float value);

// "1.42 TiB", "27.0 KiB", "512 B".
std::string human_bytes(std::uint64_t bytes);

// The document in lines, with a line end. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::ordered_json& document);
// Prints it on standard output.
void print_json(const nlohmann::ordered_json& document);
// The same on one line.
std::string json_line(const nlohmann::ordered_json& document);

// Whole content of a file, or of standard input for "-". Throws Error{kIo}.
std::string read_text(const std::string& path);

}  // namespace baltoro::cli
