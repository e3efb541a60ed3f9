#!/usr/bin/env bash
# Checks what is checked in against what would be written today. Run it through
# "make verify".
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
complain() {
	echo "verify: $1" >&2
	status=1
}

# Generated files are compared with themselves before and after, so that a change
# not yet committed is no fault.
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
copy() {
	{
		find api config/crd deploy/charts -name 'zz_generated*.go' -o -name '*.pb.go' -o -name '*.yaml' -o -name '*.json'
		echo docs/reference/chart.md
	} | sort | tar -cf - -T - | tar -xf - -C "$1"
}
copy "$before"
after=$before/after
mkdir "$after"
make generate
copy "$after"
if ! diff -ru --exclude=after "$before" "$after" >&2; then
	complain "generated files were out of date; make generate has rewritten them: look at them and commit"
fi

for module in . devcluster tools tools/capi tools/capi/earlier tools/helm tools/image tools/prometheus tools/docs tools/protocol tools/web bench; do
	if ! GOTOOLCHAIN=auto go -C "$module" mod tidy -diff; then
		complain "$module/go.mod is out of date: run go mod tidy there"
	fi
done

unformatted=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 ls -d 2>/dev/null | xargs gofmt -l)
if [[ -n $unformatted ]]; then
	complain "not formatted, run gofmt -w on: $unformatted"
fi

if ! go -C tools test ./layers || ! go -C tools run ./layers -check ..; then
	complain "the code has become harder to read: see above"
fi
exit "$status"
