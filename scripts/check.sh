#!/usr/bin/env bash
# Checks that need no running program: format, layers, sizes, compiler flags, instruction sets of the
# built objects, paths of one machine. Run it after a build; the object checks read build/release, or
# the folder named.
#   scripts/check.sh [build folder]
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
failed=0
bad() { echo "FAILED: $*"; failed=1; }
skip() { echo "SKIPPED: $*"; }

check_format() {
  if ! command -v clang-format >/dev/null; then skip "format: clang-format is not installed"; return; fi
  git ls-files -z -- '*.h' '*.cc' '*.cu' '*.cuh' 'src/serve/page/*.js' 'tests/serve/*.js' | xargs -0 -r clang-format --dry-run -Werror ||
    bad "format: run clang-format -i on the files above"
}

check_scripts() {
  local file
  while IFS= read -r file; do
    bash -n "$file" || bad "syntax: $file"
  done < <(git ls-files -- 'scripts/*.sh' '.ci/run')
  git ls-files -z -- '*.py' | xargs -0 -r python3 -c '
import ast, sys
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as f:
        ast.parse(f.read(), name)' || bad "syntax: a Python file above"
}

# Value-changing optimisation would break the determinism contract and the NaN tests.
check_flags() {
  local pattern='f(no-)?fast[-_]math|use_fast_math|-Ofast|-funsafe-math|-fassociative-math|-ffinite-math|-freciprocal-math|march=native|GCC optimize'
  if git grep -nE -e "$pattern" -- '*CMakeLists.txt' '*.cmake' CMakePresets.json '*.h' '*.cc' '*.cu' '*.cuh'; then
    bad "flags: the lines above change the meaning of arithmetic, or the machine it runs on"
  fi
  if [[ -f $build/compile_commands.json ]] && grep -nE -e "$pattern" "$build/compile_commands.json"; then
    bad "flags: $build/compile_commands.json"
  fi
}

# An inline function compiled in an ISA object may be the copy that the linker keeps for everyone: so
# these objects define no weak symbols, and no other object holds a wide register.
check_objects() {
  local objects isa other object
  objects=$(find "$build" -path '*/src/*.o' 2>/dev/null)
  if [[ -z $objects ]]; then skip "objects: nothing is built in $build"; return; fi
  isa=$(grep -E '/cpu/.*isa/' <<<"$objects")
  other=$(grep -vE '/cpu/.*isa/' <<<"$objects")
  [[ -n $isa ]] || skip "objects: no object from src/cpu/isa in $build"
  for object in $isa; do
    if nm -C --defined-only "$object" | grep -E ' [WVu] '; then bad "objects: weak symbols in $object"; fi
  done
  if [[ $(uname -m) == x86_64 ]]; then
    for object in $other; do
      if objdump -d --no-show-raw-insn "$object" | grep -m1 -E '%[yz]mm'; then
        bad "objects: ymm or zmm registers in $object"
      fi
    done
  fi
  echo "objects: $(wc -w <<<"$isa") of src/cpu/isa, $(wc -w <<<"$other") others"
}

# Paths and hosts of one machine, and folders that are not part of the project.
check_paths() {
  if git grep -nIE -e '(^|[^a-zA-Z0-9_.])/(work|home|root)/|(^|[^a-zA-Z0-9_/.-])shared/|artifact-?registry' -- \
    ':!scripts/check.sh'; then
    bad "paths: the lines above name places that only one machine has"
  fi
}

check_format
check_scripts
python3 scripts/check_layers.py || bad "layers"
python3 scripts/check_sizes.py || bad "sizes"
check_flags
check_objects
check_paths
[[ $failed -eq 0 ]] && echo "check.sh: all checks passed"
exit "$failed"
