// The fields that requests of every kind share: sampling, lengths, stop strings, streaming.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "baltoro/sampler.h"
#include "serve/api/model.h"
#include "text/json_field.h"

namespace baltoro::serve {

struct GenerationFields {
  SamplingParams sampling;
  std::optional<std::int64_t> max_tokens;
  int num_choices = 1;
  std::vector<std::string> stops;
  bool ignore_eos = false;  // goes on after the tokens that end an answer
  bool stream = false;
  bool include_usage = false;
};

// A value within [least, most], or absent. Throws Error{kUsage} naming path, value and range.
std::optional<double> number_in(const JsonField& field, double least, double most);
std::optional<std::int64_t> integer_in(const JsonField& field, std::int64_t least,
                                       std::int64_t most);

// A string or a list of them, none of them empty.
std::vector<std::string> read_stops(const JsonField& field);

// Reads OpenAI's names; what the request leaves out is as the model's generation_config.json says,
// but the seed, which is then drawn. Throws Error{kUsage} with the path.
GenerationFields read_generation_fields(const JsonField& request, const Model& model);

// Of a request without a seed.
std::uint64_t random_seed();

}  // namespace baltoro::serve
