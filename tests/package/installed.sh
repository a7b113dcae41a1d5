#!/usr/bin/env bash
# Installs a build folder, moves the tree, and uses what it holds: the binary, the CMake package and
# the pkg-config file must continue a text alike.
#   installed.sh BUILD_FOLDER C++_COMPILER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1
compiler=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "installed.sh: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$work/first" >/dev/null
tree=$work/moved
mv "$work/first" "$tree"
if grep -rF -e "$work/first" -e "$build" "$tree" --include='*.cmake' --include='*.pc'; then
  fail "the lines above name the place where the tree was made"
fi
for file in share/doc/baltoro/LICENSE share/doc/baltoro/NOTICE share/doc/baltoro/docs/config.md; do
  [[ -s $tree/$file ]] || fail "$file is not installed"
done

model=$tree/share/baltoro/models/story
text="Once upon a time"
expected=$("$tree/bin/baltoro" run "$model" "$text" -n 16 --temperature 0)
[[ ${#expected} -gt 16 ]] || fail "the installed binary wrote '$expected'"
same() {  # same NAME PROGRAM
  local written
  written=$("$2" "$model" "$text")
  [[ $written == "$expected" ]] || fail "$1 wrote '$written', the binary '$expected'"
}

cmake -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$tree" -DCMAKE_CXX_COMPILER="$compiler" >/dev/null
cmake --build "$work/consumer" >/dev/null
same find_package "$work/consumer/consumer"

export PKG_CONFIG_PATH=$tree/lib/pkgconfig
read -ra flags < <(pkg-config --cflags --libs baltoro)
"$compiler" -std=c++20 "$here/consumer/main.cc" "${flags[@]}" -o "$work/by_pkg_config"
same pkg-config "$work/by_pkg_config"
