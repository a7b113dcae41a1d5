#!/usr/bin/env bash
# Builds the libFuzzer targets with clang++ and runs each of them from its seeds, one on each core.
#   scripts/fuzz.sh [seconds a target, default 30] [target ...]
# Findings (crash-*, oom-*, timeout-*) are left in build/fuzz/findings; exit 1 if there is one.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-30}
[[ $# -gt 0 ]] && shift
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=(config_fuzz safetensors_fuzz index_fuzz rank_file_fuzz special_tokens_fuzz
  chat_request_fuzz chat_parser_fuzz json_schema_fuzz session_fuzz serve_request_fuzz)

build=build/fuzz
[[ -f $build/build.ninja ]] || cmake --preset fuzz
cmake --build --preset fuzz --target "${targets[@]}"

# Seeds: committed files and small valid inputs, so that the first mutations already reach deep.
seed() {  # seed TARGET NAME: standard input becomes a seed
  mkdir -p "$build/corpus/$1"
  cat >"$build/corpus/$1/seed-$2"
}
for config in tests/data/configs/*.json tests/data/fixtures/*/config.json; do
  seed config_fuzz "$(basename "$(dirname "$config")")-$(basename "$config")" <"$config"
done
printf '{"temperature": 0.7, "top_p": 0.9, "top_k": 4, "eos_token_id": [1, 2]}' | seed config_fuzz generation
printf '\014\000{"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}}' | seed safetensors_fuzz one
printf '\024\000{"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[4],"data_offsets":[2,6]},"b":{"dtype":"F32","shape":[1,1,2,1],"data_offsets":[8,16]}}' |
  seed safetensors_fuzz two
printf '{"metadata":{"total_size":8},"weight_map":{"x":"1.safetensors","y":"2.safetensors"}}' | seed index_fuzz two
head -c 6000 tests/data/tokenizer/tiktoken.model | seed rank_file_fuzz head
printf '\001{"added_tokens_decoder":{"1000":{"content":"[BOS]","special":true},"1002":{"content":"<|open|>"}}}' |
  seed special_tokens_fuzz two
printf '%s' '{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"<|open|>"}],"name":"n"}],"thinking":true,"thinking_effort":"low","response_format":{"type":"json_object"}}' |
  seed chat_request_fuzz thinking
printf '%s' '{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\": 1.50, \"b\": [null]}"}}]},{"role":"tool","tool_call_id":"c","content":"t"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"number"}}}}}],"tool_choice":"required"}' |
  seed chat_request_fuzz tools
printf '\000\000{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"$ref":"#/$defs/d"}]},"b":{"type":["integer","null"]}},"required":["a"],"additionalProperties":false,"$defs":{"d":{"type":"array","prefixItems":[{"const":{"x":1}}],"items":{"$ref":"#"},"minItems":1,"maxItems":3}}}' |
  seed json_schema_fuzz object
printf '\001\001{"properties":{"a":{"enum":["x","xy",1,null,[2]]},"b":{"oneOf":[{"type":"number"},{"type":"boolean"}]}},"additionalProperties":{"type":"string","format":"date"}}' |
  seed json_schema_fuzz lenient
printf '\000\003\005\004\002' | seed chat_parser_fuzz xtml
printf '\001\007\011\200\146\012\200\173\200\175\013\010\002' | seed chat_parser_fuzz k2
printf '\001\000\000' | seed session_fuzz unchanged
printf '\000%s' '{"model":"tiny","messages":[{"role":"user","content":"u"}],"n":2,"stop":["x"],"logprobs":true,"top_logprobs":2,"stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"top_k":3,"seed":1,"max_tokens":9,"logit_bias":{"5":1},"reasoning_effort":"low","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"auto","parallel_tool_calls":false}' |
  seed serve_request_fuzz chat
printf '\001%s' '{"prompt":["a",[1,2]],"echo":true,"max_tokens":5,"stream":true,"n":2,"ignore_eos":true}' | seed serve_request_fuzz completion
printf '\012%s' '{"max_tokens":50,"system":[{"type":"text","text":"s"}],"thinking":{"type":"enabled","budget_tokens":9},"messages":[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"c"},{"type":"tool_use","id":"i","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":"r"}]}],"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto"},"stop_sequences":["x"],"stream":true,"output_config":{"effort":"low"}}' |
  seed serve_request_fuzz messages
printf '\004%s' '{"prompt":"text"}' | seed serve_request_fuzz tokenize
printf '\005%s' '{"tokens":[1,2,3]}' | seed serve_request_fuzz detokenize
printf '\207/v1/models/a%%2Fb\n' | seed serve_request_fuzz path

# Every quoted word of the seeds, for the mutations to put in.
words() {
  grep -ahoE '"[A-Za-z0-9_.|<>-]{2,40}"' "$build/corpus/$1"/seed-* | sort -u
}

fuzz() {  # fuzz TARGET: the report is kept in a log until it ends
  local log=$build/$1.log status=0
  local options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -verbosity=0
    -print_funcs=0 -print_final_stats=1 -artifact_prefix="$build/findings/$1-")
  words "$1" >"$build/$1.dict"
  [[ ! -s $build/$1.dict ]] || options+=(-dict="$build/$1.dict")
  "$build/tests/fuzz/$1" "${options[@]}" "$build/corpus/$1" >"$log" 2>&1 || status=1
  echo "::: $1, $seconds s"
  sed '/^###### Rec/,/^###### End/d' "$log"
  return $status
}
export -f words fuzz
export build seconds
mkdir -p $build/findings
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
