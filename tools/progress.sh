#!/usr/bin/env bash
# Runs a command that may take minutes: says every 15 s how far it is, and prints
# the command's output only if it fails. Usage: progress.sh WHAT COMMAND...
# With go build -v, "how far" is the number of packages compiled.
set -euo pipefail

what=$1
shift
log=$(mktemp)
"$@" >"$log" 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; rm -f "$log"' EXIT
trap 'exit 130' INT TERM

start=$SECONDS
shown=0
while kill -0 "$pid" 2>/dev/null; do
	sleep 0.2
	elapsed=$((SECONDS - start))
	if ((elapsed - shown >= 15)); then
		shown=$elapsed
		fetched=$(grep -c '^go: downloading ' "$log" || true)
		compiled=$(grep -c '^[^ ]*$' "$log" || true)
		echo "  $what: ${elapsed}s, $fetched modules fetched, $compiled packages compiled"
	fi
done
status=0
wait "$pid" || status=$?
if ((status != 0)); then
	# Package names and downloads are progress, not errors.
	grep -v -e '^[^ ]*$' -e '^go: downloading ' "$log" >&2 || true
	echo "$what: failed" >&2
fi
exit "$status"
