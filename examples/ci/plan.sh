#!/bin/sh
# Plans what merging one revision into another would change, and keeps it in four files: plan.json for programs,
# plan.txt with every diff, plan.md for the pull request, plan.sarif with the findings. It needs sh, git and godwit.
set -eu

usage() {
	cat <<'END'
usage: plan.sh [FLAGS] [-- GODWIT FLAGS...]     in a clone of the repository, with its whole history

  --target REV       what is merged into (default: origin/HEAD)
  --head REV         what is merged: a merge commit of both, or the tip of a branch (default: HEAD)
  --state REV|none   the state branch (default: godwit/state, here or at the origin, if there is one)
  --out DIR          where the files go (default: plan)
  --fail-on WHAT     error: findings of severity error; changes: those, and anything that changes; never (default: error)

Exit status: 0 done; 1 error; 2 with --fail-on changes, there are changes; 3 findings of severity error.
END
}

die() {
	printf 'plan.sh: %s\n' "$*" >&2
	exit 1
}

target=refs/remotes/origin/HEAD head=HEAD state='' out=plan fail_on=error
while [ $# -gt 0 ]; do
	case $1 in
	--target | --head | --state | --out | --fail-on) [ $# -gt 1 ] || die "$1 wants a value; --help tells more" ;;
	esac
	case $1 in
	--target) target=$2 && shift ;;
	--head) head=$2 && shift ;;
	--state) state=$2 && shift ;;
	--out) out=$2 && shift ;;
	--fail-on) fail_on=$2 && shift ;;
	--help) usage && exit 0 ;;
	--) shift && break ;;
	*) die "$1: is no flag here; --help tells more, and flags of godwit go behind --" ;;
	esac
	shift
done
case $fail_on in
error | changes | never) ;;
*) die "--fail-on $fail_on: is not error, changes or never" ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

# What is checked out is somebody's proposal: a link in it may lead anywhere.
place=$out
while case $place in */) ;; *) false ;; esac do place=${place%/}; done
while :; do
	if [ -L "$place" ]; then die "--out $out: $place is a link, and nothing is written where it leads"; fi
	case $out in /*) break ;; esac
	case $place in */*) place=${place%/*} ;; *) break ;; esac
done

# What reviewers saw before is no longer true, even if there is nothing new to show.
mkdir -p "$out"
rm -f "$out/plan.json" "$out/plan.txt" "$out/plan.sarif" "$out/plan.md"
cat >"$out/plan.md" <<'END'
<!-- godwit-plan -->
### godwit plan: none for this revision

The log of the job says why.
END

commit() { # REV WHAT
	git rev-parse --quiet --verify --end-of-options "$1^{commit}" || die "$2 $1: there is no such commit here"
}

if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
	die 'this clone has not its whole history: check out with fetch-depth: 0 (GitLab: GIT_DEPTH: "0")'
fi
head=$(commit "$head" --head)
target=$(commit "$target" --target)
# Where the head is a merge of the target this is the target, else where the branch left it: what others merged
# meanwhile is in the plan of neither.
base=$(git merge-base "$target" "$head") || die "$target and $head have no history in common"
case $state in
none) ;;
'')
	state=godwit/state
	git rev-parse --quiet --verify "refs/heads/$state" >/dev/null ||
		git rev-parse --quiet --verify "refs/remotes/origin/$state" >/dev/null || state=none
	;;
*) state=$(commit "$state" --state) ;;
esac
if [ "$state" = none ]; then
	echo 'plan.sh: without a state branch: every workload is placed afresh' >&2
fi

# godwit.yaml is the base's: that of the head may not say how it is looked at itself.
if [ -z "${GODWIT_CONFIG-}" ]; then
	export GODWIT_CONFIG="$scratch/godwit.yaml"
	git cat-file blob "$base:./godwit.yaml" >"$GODWIT_CONFIG" 2>/dev/null || : >"$GODWIT_CONFIG"
fi

# godwit reads this repository in place, whatever godwit.yaml says, and changes nothing in it.
repository=$(cd "$(git rev-parse --git-common-dir)" && pwd -P)
export GODWIT_STATE_URL="$repository"

form() { # FORM FILE GODWIT-FLAGS...
	as=$1 file=$2 code=0
	shift 2
	godwit plan --source "$repository" --base "$base" --head "$head" --state "$state" --what-if \
		--detailed-exitcode -o "$as" "$@" >"$scratch/$file" || code=$?
	case $code in
	0 | 2 | 3) ;;
	*) exit 1 ;; # it said why
	esac
}
form json plan.json "$@"
form text plan.txt "$@"
form sarif plan.sarif "$@"
form markdown plan.md "$@"

link=''
if [ -n "${GITHUB_RUN_ID-}" ]; then
	link=$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID
elif [ -n "${CI_JOB_URL-}" ]; then
	link=$CI_JOB_URL/artifacts/browse
fi
if [ -n "$link" ]; then
	printf '\n[The whole plan, with every diff](%s)\n' "$link" >>"$scratch/plan.md"
fi
for file in plan.json plan.txt plan.sarif plan.md; do
	cp "$scratch/$file" "$out/$file"
done

# Not at the start of a line: runners take some lines for orders.
sed -n '2{s/^[#* ]*/| /;s/\*//g;p;}' "$out/plan.md"
echo "| $base -> $head, in $out/plan.txt, plan.json, plan.md and plan.sarif"
case $fail_on$code in
error3 | changes3) exit 3 ;;
changes2) exit 2 ;;
esac
