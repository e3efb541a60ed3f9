#!/usr/bin/env bash
# Shows that the tree decides and acts as an older commit does. Run it through
# "make behaviour OLD=<commit>". It builds both and compares
#
#   plan        what dovetail simulate answers for every public scenario, but for the time it took
#   world       the hash of what happens in simulated clusters, the number of events, node hours;
#               where the hashes differ, what happens without the texts of events and logs
#   decisions   what the older build decided in those clusters, decided again by the newer one
#
# and ends with 1 when something differs. What each build answered is kept in the directory
# that KEEP names. SEEDS="1 30m; 3 40m 90m 6" plays others: a seed, how long faults rage,
# how long the calm after them lasts, about how many nodes the load needs (0: the seed
# decides), and the word "ordinary" for faults as seldom as in a real cluster. CONVERT names a
# command that is given the directory of an older build's decisions and rewrites them, for
# when the format of records has changed.
set -euo pipefail
cd "$(dirname "$0")/.."

old=${OLD:?usage: make behaviour OLD=<commit>}
seeds=${SEEDS:-1 30m 90m 0; 2 30m 90m 0; 3 40m 90m 6; 4 40m 90m 6; 1110 90m 1m 0; 1 3h 90m 6 ordinary}

tmp=$(mktemp -d)
trap 'git worktree remove --force "$tmp/tree" 2>/dev/null || true; rm -rf "$tmp"' EXIT
out=${KEEP:-$tmp/out}
rm -rf "$out"
mkdir -p "$out/old" "$out/new"
out=$(cd "$out" && pwd)
git worktree add -q --detach "$tmp/tree" "$old"

# holding prints the directory of a tree that has a file which matches, wherever it was moved.
holding() { # tree, name of the file, text in it
	(cd "$1" && grep -l -r --include="$2" -e "$3" internal | sort | head -1 | xargs dirname)
}

# answer runs a command and keeps what it prints. An exit status is part of the answer.
answer() { # file, command...
	local file=$1 status=0
	shift
	"$@" >"$file" 2>"$file.err" || status=$?
	echo "exit status $status" >>"$file"
	sed -i -E 's/"(format|scenario|solve(Wall|User)Seconds)":[^,]*,//g' "$file"
}

# plans asks for the plan of each scenario and of the manifests.
plans() { # tree, out
	local data file name
	data=$(cd "$1" && dirname "$(git ls-files '*/p3-consolidate-100.json.gz')")
	for file in "$1/$data"/p*.json.gz; do
		name=$(basename "$file" .json.gz)
		if [[ $name == *consolidate* ]]; then
			answer "$2/plan.$name" "$2/dovetail" simulate -o json --consolidate --scenario "$file"
		else
			answer "$2/plan.$name" "$2/dovetail" simulate -o json --scenario "$file"
		fi
	done
	for name in "$data/gpu.yaml" examples/kwok examples/aws; do
		answer "$2/plan.$(basename "$name")" "$2/dovetail" simulate -o json -f "$1/$name" --catalog ec2
	done
}

# worlds plays the seeds and keeps what happened, its hash, and what was decided.
worlds() { # tree, out
	local seed stormy calm nodes kind name dir
	dir=$1/$(holding "$1" '*_test.go' '^func TestOneSeedIsOneHistory')
	while read -r seed stormy calm nodes kind; do
		name=$seed-$stormy${kind:+-$kind}
		mkdir -p "$2/decisions/$name"
		(cd "$dir" && "$2/simtest" -test.timeout=0 -test.v -test.run='^TestSeed$' -seed="$seed" -stormy="$stormy" -calm="${calm:-90m}" \
			-nodes="${nodes:-0}" -ordinary="$([[ -n $kind ]] && echo true || echo false)" -decisions="$2/decisions/$name") >"$2/journal.$name" 2>&1 || true
		grep -o -E '(Hash|Events|Lasted|NodeHours):[^ ]*' "$2/journal.$name" >"$2/world.$name" || echo "no result" >"$2/world.$name"
	done < <(tr ';' '\n' <<<"$seeds" | sed '/^ *$/d')
}

# happened prints what happens in a simulated cluster, without what is only text: logs, messages of
# events, and the numbers of the last line.
happened() { # journal of a world
	grep -E '^ +[0-9.]+ ' "$1" | sed -E 's/^( *[0-9.]+ event [^ ]+ [A-Za-z]+):.*/\1/; s/^( *[0-9.]+ product create NodeClaim).*/\1/'
}

side() { # tree, out
	(cd "$1" && go build -o "$2/dovetail" ./cmd/dovetail && go test -c -o "$2/simtest" "./$(holding . '*_test.go' '^func TestOneSeedIsOneHistory')")
	plans "$1" "$2"
	worlds "$1" "$2"
}

status=0
# outcome prints a line of the table.
outcome() { # what, name, same or else
	printf '%-10s %-32s %s\n' "$1" "$2" "$3"
	[[ $3 == same* ]] || status=1
}

# compared reports of each answer of the older build whether the newer one's is the same.
compared() { # what
	local file name other
	for file in "$out/old/$1".*; do
		name=${file##*/"$1".}
		other=$out/new/$1.$name
		if [[ $name == *.err ]]; then
			continue
		elif [[ -z $(shown "$file") ]]; then
			outcome "$1" "$name" "NO ANSWER by the older build"
			cat "$file.err" "$out/old/journal.$name" 2>/dev/null | tail -3 || true
		elif cmp -s "$file" "$other"; then
			outcome "$1" "$name" "same$(shown "$file")"
		elif [[ $1 == world ]] && cmp -s <(happened "$out/old/journal.$name") <(happened "$out/new/journal.$name"); then
			outcome "$1" "$name" "same but for texts, $(happened "$out/new/journal.$name" | wc -l) lines"
		else
			outcome "$1" "$name" "DIFFERS"
			diff "$file" "$other" | cut -c 1-300 | head -10 || true
			[[ $1 != world ]] || diff "$out/old/journal.$name" "$out/new/journal.$name" | cut -c 1-300 | head -10 || true
		fi
	done
}

# shown prints what is worth reading of an answer: a price, or a hash and a count of events.
shown() { # file
	grep -o -E '"pricePerHour":[0-9.]*' "$1" | sed 's/.*:\(.*\)/, \1 $\/h/' || true
	sed -n -E 's/^Hash:(.*)/, hash \1/p; s/^Events:(.*)/, \1 events/p' "$1" | tr -d '\n'
}

# onlyTexts reports whether decisions differ in the details of verdicts alone: each line that one
# plan has more is there in the other about the same object and with the same reason.
onlyTexts() { # what replay printed
	awk -F ': ' '
		/^ *"[+-] / { sign = ($1 ~ /"\+/) ? 1 : -1; sub(/^ *"[+-] /, "", $1); lines[$1 ": " $2 ": " $3] += sign }
		/^ *\]/ { for (l in lines) if (lines[l] != 0) other = 1; delete lines }
		END { exit other }' "$1"
}

# decisions has the newer build decide what the older one did.
decisions() {
	local dir name count
	for dir in "$out"/old/decisions/*; do
		name=$(basename "$dir")
		[[ -z ${CONVERT:-} ]] || $CONVERT "$dir"
		"$out/new/dovetail" replay "$dir" --all -o json >"$out/new/replay.$name" 2>"$out/new/replay.$name.err" || true
		count=$(grep -c -E '"same": ?true' "$out/new/replay.$name" || true)
		if [[ $count -gt 0 ]] && ! grep -q -E '"same": ?false' "$out/new/replay.$name"; then
			outcome decisions "$name" "same, $count decisions"
		elif [[ $count -gt 0 ]] && onlyTexts "$out/new/replay.$name"; then
			outcome decisions "$name" "same but for texts, $(grep -c -E '"same": ?' "$out/new/replay.$name") decisions"
		else
			outcome decisions "$name" "DIFFERS: $count the same, $(grep -c -E '"same": ?false' "$out/new/replay.$name" || true) not"
			grep -m 3 -A 3 '"differences"' "$out/new/replay.$name" | cut -c 1-300 || true
			tail -3 "$out/new/replay.$name.err"
		fi
	done
}

side "$tmp/tree" "$out/old" &
older=$!
side "$PWD" "$out/new" &
wait "$older"
wait $!
compared plan
compared world
decisions
if [[ $status == 0 ]]; then
	echo "behaviour: the tree does what $old does"
else
	echo "behaviour: the tree differs from $old" >&2
fi
exit "$status"
