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
into=(chroot "$root")
[[ $(id -u) -eq 0 ]] || into=(unshare --map-root-user "${into[@]}")
inside() { "${into[@]}" "$@"; }
written=$(inside /baltoro run /model "Once upon a time" -n 16 --temperature 0)
[[ $written == "$("$1" run "$2" "Once upon a time" -n 16 --temperature 0)" ]] || fail "run wrote '$written'"
inside /baltoro inspect /model --verify >/dev/null || fail "inspect"
[[ -n $(inside /baltoro chat /model <<<"Hello.") ]] || fail "chat wrote nothing"
status=0
inside /baltoro run /nowhere x 2>"$root/errors" || status=$?
[[ $status -eq 3 && -s $root/errors ]] || fail "a missing model: status $status, '$(cat "$root/errors")'"

: >"$root/log"
"${into[@]}" /baltoro serve /model --port 0 --log-format json 2>"$root/log" &
server=$!
url=
for _ in $(seq 300); do
  url=$(sed -n 's/.*"event":"ready".*"url":"\([^"]*\)".*/\1/p' "$root/log")
  [[ -z $url ]] || break
  sleep 0.1
done
[[ -n $url ]] || fail "the server did not start: $(cat "$root/log")"
[[ -n $(inside /baltoro chat --server "$url" <<<"Hello.") ]] || fail "chat with the server wrote nothing"
kill "$server"
wait "$server" || fail "the server ended with $?"
