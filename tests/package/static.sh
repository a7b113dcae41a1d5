#!/usr/bin/env bash
# Runs a static binary where there is nothing but itself and a model: no libraries, no /proc, no /etc.
#   static.sh BINARY MODEL
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "static.sh: $*" >&2; exit 1; }

if readelf -ld "$1" | grep -E 'INTERP|NEEDED'; then fail "$1 needs the above"; fi
cp "$1" "$root/baltoro"
cp -r "$2" "$root/model"
inside() {
  if [[ $(id -u) -eq 0 ]]; then chroot "$root" "$@"; else unshare --map-root-user chroot "$root" "$@"; fi
}
written=$(inside /baltoro run /model "Once upon a time" -n 16 --temperature 0)
[[ $written == "$("$1" run "$2" "Once upon a time" -n 16 --temperature 0)" ]] || fail "run wrote '$written'"
inside /baltoro inspect /model --verify >/dev/null || fail "inspect"
[[ -n $(inside /baltoro chat /model <<<"Hello.") ]] || fail "chat wrote nothing"
status=0
inside /baltoro run /nowhere x 2>"$root/errors" || status=$?
[[ $status -eq 3 && -s $root/errors ]] || fail "a missing model: status $status, '$(cat "$root/errors")'"
