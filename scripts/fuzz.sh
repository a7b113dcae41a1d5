#!/usr/bin/env bash
# Builds the libFuzzer targets with clang++ and runs each of them from its seeds.
#   scripts/fuzz.sh [seconds a target, default 30] [target ...]
# Findings (crash-*, oom-*, timeout-*) are left in build/fuzz/findings; exit 1 if there is one.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-30}
[[ $# -gt 0 ]] && shift
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=(config_fuzz safetensors_fuzz index_fuzz rank_file_fuzz chat_parser_fuzz)

build=build/fuzz
cmake -S . -B $build -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -gline-tables-only" -DBALTORO_TESTS=OFF -DBALTORO_FUZZ=ON \
  -DBALTORO_SANITIZE=fuzzer-no-link,address,undefined >/dev/null
cmake --build $build --target "${targets[@]}"

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
printf '\003\005\004\002' | seed chat_parser_fuzz markers

failed=0
mkdir -p $build/findings
for target in "${targets[@]}"; do
  mkdir -p "$build/corpus/$target"
  echo "::: $target, $seconds s"
  "$build/tests/fuzz/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -verbosity=0 -print_funcs=0 \
    -print_final_stats=1 -artifact_prefix="$build/findings/$target-" "$build/corpus/$target" || failed=1
done
exit $failed
