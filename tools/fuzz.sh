#!/usr/bin/env bash
# Runs every fuzz test of the product, one after another, for FUZZTIME each (10m); ONLY is a
# pattern of names, as in ONLY=FuzzPod. What an input breaks is kept below the package's
# testdata/fuzz: mend it, and commit the file with the change.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=()
while IFS=: read -r file name; do
	package=$(dirname "$file")
	echo "== $name in $package, for ${FUZZTIME:-10m}"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-10m}" -fuzzminimizetime 100x "$package" </dev/null || failed+=("$package $name")
done < <(git ls-files -c -o --exclude-standard '*_test.go' | grep -Ev '^(devcluster|bench|tools)/' | sort |
	xargs grep -HoE '^func Fuzz[A-Za-z0-9_]*' | sed -E 's/^(.*):func (.*)$/.\/\1:\2/' | grep -E "${ONLY:-.}" || true)

if [ ${#failed[@]} -gt 0 ]; then
	printf 'failed: %s\n' "${failed[@]}"
	exit 1
fi
