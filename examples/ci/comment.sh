#!/bin/sh
# Keeps one comment on a pull request up to date: finds the one it made before, changes it, or makes the first.
# It needs sh, awk, od and curl, on any forge's runner.
set -eu
umask 077
LC_ALL=C
export LC_ALL

usage() {
	cat <<'END'
usage: comment.sh [FLAGS] FILE      the file becomes the comment, byte by byte
       comment.sh --summary FILE    the file becomes part of the job's summary; no comment

  --forge github|gitlab|gitea   default: the one whose runner this is; Forgejo is gitea
  --pull-request N              default: the one this job is for
  --author LOGIN                whose comments are ours; default: the token's user, or the forge's bot
  --optional                    no token, or one that may not comment, is a warning and status 0

The first line of the file is the hidden mark by which the comment is found again: <!-- some words -->.
COMMENT_TOKEN is the token, or else GITHUB_TOKEN, GITLAB_TOKEN or GITEA_TOKEN.
Exit status: 0 done; 1 error; 2 wrong usage; 3 the token may not comment.
END
}

die() {
	printf 'comment.sh: %s\n' "$*" >&2
	exit 1
}

misused() {
	printf 'comment.sh: %s; --help tells more\n' "$*" >&2
	exit 2
}

# refused ends where nobody may write: pull requests of forks have no token that could.
refused() {
	if [ -n "$optional" ]; then
		printf 'comment.sh: no comment: %s\n' "$*" >&2
		if [ "$forge" = github ]; then
			echo '::warning title=godwit plan::No comment was made. The plan is in the summary of this job and in its artifact.'
		fi
		exit 0
	fi
	printf 'comment.sh: %s\n' "$*" >&2
	exit 3
}

forge='' number='' author='' optional='' summary=''
while [ $# -gt 0 ]; do
	case $1 in
	--forge | --pull-request | --author) [ $# -gt 1 ] || misused "$1 wants a value" ;;
	esac
	case $1 in
	--forge) forge=$2 && shift ;;
	--pull-request) number=$2 && shift ;;
	--author) author=$2 && shift ;;
	--optional) optional=yes ;;
	--summary) summary=yes ;;
	--help) usage && exit 0 ;;
	--) shift && break ;;
	-*) misused "$1 is no flag" ;;
	*) break ;;
	esac
	shift
done
[ $# -eq 1 ] || misused 'give one file'
file=$1
[ -r "$file" ] || die "$file cannot be read"

if [ -n "$summary" ]; then
	[ -n "${GITHUB_STEP_SUMMARY-}" ] || die 'GITHUB_STEP_SUMMARY is not set: this runner has no summaries'
	cat -- "$file" >>"$GITHUB_STEP_SUMMARY"
	exit 0
fi

# Runners of Gitea and Forgejo call themselves GitHub's, too.
if [ -z "$forge" ]; then
	if [ -n "${GITLAB_CI-}" ]; then
		forge=gitlab
	elif [ -n "${GITEA_ACTIONS-}${FORGEJO_ACTIONS-}" ]; then
		forge=gitea
	elif [ -n "${GITHUB_ACTIONS-}" ]; then
		forge=github
	else
		misused 'this is no runner that I know: give --forge'
	fi
fi

# The lists are oldest first, so that of two comments by accident it is always the same one.
user_key=user name_key=login update=PATCH bot=''
case $forge in
github | gitea)
	repository=${GITHUB_REPOSITORY-}
	case $repository in
	*/*/* | *[!A-Za-z0-9._/-]* | /* | */) die "GITHUB_REPOSITORY is \"$repository\", not OWNER/NAME" ;;
	*/*) ;;
	*) die "GITHUB_REPOSITORY is \"$repository\", not OWNER/NAME" ;;
	esac
	case ${GITHUB_REF-} in
	refs/pull/*/*)
		of=${GITHUB_REF#refs/pull/}
		number=${number:-${of%%/*}}
		;;
	esac
	if [ "$forge" = github ]; then
		api=${GITHUB_API_URL:-https://api.github.com}
		token=${COMMENT_TOKEN:-${GITHUB_TOKEN-}} bot='github-actions[bot]' page_size=per_page=100
		accept=application/vnd.github+json
	else
		api=${GITHUB_API_URL:-${GITHUB_SERVER_URL-}/api/v1}
		token=${COMMENT_TOKEN:-${GITEA_TOKEN:-${GITHUB_TOKEN-}}} page_size=limit=50
		accept=application/json
		if [ -n "${FORGEJO_ACTIONS-}" ]; then bot=forgejo-actions; else bot=gitea-actions; fi
	fi
	authorization="Authorization: Bearer $token"
	new=$api/repos/$repository/issues/$number/comments
	old=$api/repos/$repository/issues/comments
	;;
gitlab)
	number=${number:-${CI_MERGE_REQUEST_IID-}}
	project=${CI_MERGE_REQUEST_PROJECT_ID:-${CI_PROJECT_ID-}}
	case $project in
	'' | *[!0-9]*) die "CI_MERGE_REQUEST_PROJECT_ID is \"$project\", no number" ;;
	esac
	api=${CI_API_V4_URL:-https://gitlab.com/api/v4}
	token=${COMMENT_TOKEN:-${GITLAB_TOKEN-}} page_size='sort=asc&order_by=created_at&per_page=100'
	accept=application/json
	authorization="PRIVATE-TOKEN: $token"
	new=$api/projects/$project/merge_requests/$number/notes
	old=$new
	update=PUT user_key=author name_key=username
	;;
*) misused "--forge $forge: is not github, gitlab or gitea" ;;
esac
case $number in
'') refused 'this job is for no pull request; give --pull-request' ;;
*[!0-9]*) misused "--pull-request $number: is no number" ;;
esac
case $token in
'') refused 'there is no token; set COMMENT_TOKEN' ;;
*[!A-Za-z0-9._=:~+/-]*) die 'the token has characters that tokens do not have' ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

mark=$(head -n 1 -- "$file" | tr -d '\r')
case $mark in
*[!\ -~]*) die "$file: the first line is the mark and has only ASCII" ;;
'<!-- '*' -->') ;;
*) die "$file: the first line is \"$(printf %.60s "$mark")\", not a mark like <!-- godwit-plan -->" ;;
esac

# JSON in ASCII, of any bytes: UTF-8 as \u escapes, what is no UTF-8 as the replacement character.
od -An -v -tu1 -- "$file" | awk '
	function put(c) {
		if (c < 65536) printf "\\u%04x", c
		else printf "\\u%04x\\u%04x", 55296 + int((c - 65536) / 1024), 56320 + (c - 65536) % 1024
	}
	function whole() {
		put(code < least || code > 1114111 || code >= 55296 && code < 57344 ? 65533 : code)
	}
	BEGIN {
		printf "{\"body\":\""
		for (i = 32; i < 127; i++) plain[i] = sprintf("%c", i)
		plain[34] = "\\\""; plain[92] = "\\\\"; plain[10] = "\\n"
	}
	{
		for (i = 1; i <= NF; i++) {
			b = $i + 0
			if (more > 0 && b >= 128 && b < 192) {
				code = code * 64 + b - 128
				if (--more == 0) whole()
				continue
			}
			if (more > 0) { put(65533); more = 0 }
			if (b in plain) printf "%s", plain[b]
			else if (b < 128) put(b)
			else if (b >= 194 && b < 224) { more = 1; code = b - 192; least = 128 }
			else if (b >= 224 && b < 240) { more = 2; code = b - 224; least = 2048 }
			else if (b >= 240 && b < 245) { more = 3; code = b - 240; least = 65536 }
			else put(65533)
		}
	}
	END { if (more > 0) put(65533); printf "\"}" }
' >"$scratch/body.json"

# pick prints of a JSON list of comments the id of the first one that has this first line and author; without an
# author, who that is. Status 2: it is no list, or not all of it. Between two quotes is either text or structure.
pick() { # FIRST-LINE AUTHOR
	MARK=$1 AUTHOR=$2 USER_KEY=$user_key NAME_KEY=$name_key awk '
		function first_line(s,   out, i, e, code) {
			while (i = index(s, "\\")) {
				out = out substr(s, 1, i - 1)
				e = substr(s, i + 1, 1)
				code = e == "n" ? 10 : e == "r" ? 13 : 0
				if (e == "u") { code = hex(tolower(substr(s, i + 2, 4))); i += 4 }
				else if (e == "\"" || e == "\\" || e == "/") { out = out e; code = -1 }
				if (code == 10 || code == 13) return out
				if (code >= 0) out = out (code >= 32 && code < 127 ? sprintf("%c", code) : "\001")
				s = substr(s, i + 2)
			}
			return out s
		}
		function hex(s,   n, i) {
			for (i = 1; i <= 4; i++) n = n * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1
			return n
		}
		BEGIN { RS = "\"" }
		text {
			n = 0
			while (n < length($0) && substr($0, length($0) - n, 1) == "\\") n++
			if (length(s) < 4096) s = s $0 (n % 2 ? "\"" : "")
			if (n % 2) next
			text = 0
			if (naming[depth]) key[depth] = s
			else if (depth == 2 && key[2] == "body") body = s
			else if (depth == 3 && kind[3] == "{" && key[2] == ENVIRON["USER_KEY"] && key[3] == ENVIRON["NAME_KEY"]) who = s
			next
		}
		{
			for (i = 1; i <= length($0); i++) {
				c = substr($0, i, 1)
				if (c == "{" || c == "[") {
					if (depth == 0 && (c != "[" || lists++)) { bad = 1; exit }
					kind[++depth] = c
					naming[depth] = c == "{"
					if (depth == 2) id = body = who = ""
				} else if (c == "}" || c == "]") {
					if (depth == 2 && c == "}" && found == "" && first_line(body) == ENVIRON["MARK"]) {
						if (ENVIRON["AUTHOR"] == "") found = first_line(who)
						else if (first_line(who) == ENVIRON["AUTHOR"]) found = id
					}
					naming[depth--] = 0
				} else if (c == ",") naming[depth] = kind[depth] == "{"
				else if (c == ":") naming[depth] = 0
				else if (c ~ /[0-9]/ && depth == 2 && key[2] == "id" && !naming[2]) id = id c
			}
			text = 1
			s = ""
		}
		END {
			if (bad || depth != 0 || !lists) exit 2
			if (found != "") print found
		}
	'
}

# call METHOD URL [BODY]: the answer is in $scratch/answer. The token goes to curl by a pipe: arguments are for
# everybody to see. No redirects are followed: the token is for this host. Status 1: worth another try.
call() {
	method=$1 url=$2
	if [ $# -gt 2 ]; then
		set -- --header 'Content-Type: application/json' --data-binary "@$3"
	else
		set --
	fi
	: >"$scratch/headers"
	: >"$scratch/answer"
	status=$(
		printf 'header = "%s"\n' "$authorization" "Accept: $accept" 'User-Agent: godwit-comment' 'Expect:' |
			curl -q --config - --silent --show-error --globoff --proto '=http,https' --connect-timeout 10 --max-time 60 \
				--request "$method" --dump-header "$scratch/headers" --output "$scratch/answer" --write-out '%{http_code}' \
				"$@" "$url" 2>"$scratch/trouble"
	) || status=000
	case $status in
	2??) return 0 ;;
	000)
		trouble="$method $url: $(tr -dc ' -~' <"$scratch/trouble")"
		return 1
		;;
	esac
	trouble="$method $url: status $status: $(tr -dc ' -~' <"$scratch/answer" | cut -c 1-300)"
	later=$(tr -d '\r' <"$scratch/headers" | awk 'tolower($1) == "retry-after:" && $2 ~ /^[0-9]+$/ && length($2) < 6 { print $2; exit }')
	case $status in
	408 | 429 | 5??) return 1 ;;
	403) [ -z "$later" ] || return 1 ;;
	esac
	return 0
}

# want ends the script where an answer is none that helps.
want() {
	case $status in
	2??) ;;
	403 | 404) refused "$trouble" ;;
	401) die "the token is not accepted: $trouble" ;;
	413 | 422 | 400) die "the comment of $(wc -c <"$file" | tr -d ' ') bytes is not accepted: $trouble" ;;
	*) die "$trouble" ;;
	esac
}

# once does all of it. It begins with a look each time: a call that seemed to fail may have made the comment.
once() {
	if [ -z "$author" ]; then
		call GET "$api/user" || return 1
		case $status in
		2??) author=$({ printf '[{"%s":' "$user_key" && cat "$scratch/answer" && printf '}]'; } | pick '' '') || author='' ;;
		esac
		author=${author:-$bot}
		[ -n "$author" ] || { want && die "$api/user does not say whose token it is; give --author"; }
	fi
	page=1 id=''
	while :; do
		call GET "$new?$page_size&page=$page" || return 1
		want
		id=$(pick "$mark" "$author" <"$scratch/answer") || die "GET $new: the answer is no list of comments"
		[ -z "$id" ] || break
		grep -qi '^link:.*rel="\{0,1\}next' "$scratch/headers" || break
		page=$((page + 1))
		[ "$page" -le 200 ] || die "$new: there are too many pages"
	done
	if [ -n "$id" ]; then
		call "$update" "$old/$id" "$scratch/body.json" || return 1
		want
		echo "comment $id updated"
		return 0
	fi
	call POST "$new" "$scratch/body.json" || return 1
	want
	id=$({ printf '[' && cat "$scratch/answer" && printf ']'; } | pick "$mark" "$author") || die "POST $new: the answer is no comment"
	[ -n "$id" ] || die "the comment was made, but not by $author: it would not be found again; give --author"
	echo "comment $id made"
}

pause=${COMMENT_RETRY_SECONDS:-2} later='' tries=1
until once; do
	[ "$tries" -lt 5 ] || die "given up after $tries tries: $trouble"
	tries=$((tries + 1))
	printf 'comment.sh: %s; once more\n' "$trouble" >&2
	wait=${later:-$pause}
	if [ "$wait" -gt 60 ]; then wait=60; fi
	sleep "$wait"
	pause=$((pause * 2)) later=''
done
