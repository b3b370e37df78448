#!/bin/sh
# Makes keys/ and sealed/ anew, of plain/.
set -eu
cd "$(dirname "$0")"
rm -rf keys sealed
mkdir keys sealed
for name in a b; do
	age-keygen 2>/dev/null | sed '1i # A key for tests alone. It is public, and opens nothing that anybody uses.' >keys/$name.agekey
done
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export GNUPGHOME="$home" SOPS_AGE_KEY_FILE=keys/a.agekey
for algorithm in ed25519/cv25519 rsa2048/rsa2048; do
	name=pgp-${algorithm%/*}
	gpg -q --batch --passphrase '' --quick-gen-key "$name (for tests alone) <$name@example.com>" "${algorithm%/*}" cert never
	fp=$(gpg --batch --with-colons --list-keys "$name@example.com" | awk -F: '/^fpr/ {print $10; exit}')
	gpg -q --batch --passphrase '' --quick-add-key "$fp" "${algorithm#*/}" encr never
	gpg -q --batch --armor --export-secret-keys "$fp" >keys/$name.asc
	eval "$(echo "$name" | tr - _)=$fp"
done
gpg -q --batch --passphrase secret --pinentry-mode loopback --quick-gen-key "locked <locked@example.com>" rsa2048 cert never
gpg -q --batch --passphrase secret --pinentry-mode loopback --armor --export-secret-keys locked@example.com >keys/locked.asc
gpg -q --batch --armor --export locked@example.com >keys/public.asc
a=$(sed -n 's/.*public key: //p' keys/a.agekey) b=$(sed -n 's/.*public key: //p' keys/b.agekey)

seal() { # NAME PLAIN ARGS...
	name=$1 plain=plain/$2
	shift 2
	sops encrypt "$@" "$plain" >sealed/$name
}
by() { # NAME PLAIN RULE
	printf 'creation_rules:\n- %s\n' "$3" >"$home/rules.yaml"
	sops --config "$home/rules.yaml" encrypt "plain/$2" >sealed/$1
}
fields='^(data|stringData)$'
seal regex.yaml secret.yaml --age $a --encrypted-regex "$fields"
seal unencrypted-regex.yaml secret.yaml --age $a --unencrypted-regex '^(apiVersion|kind|metadata|type)$'
by mac-only.yaml secret.yaml "{age: $a, encrypted_regex: $fields, mac_only_encrypted: true}"
seal encrypted-suffix.yaml suffix.yaml --age $a --encrypted-suffix _sealed
seal unencrypted-suffix.yaml suffix.yaml --age $a --unencrypted-suffix _open
by hydrate.yaml hydrate.yaml "{age: $a, encrypted_regex: $fields, mac_only_encrypted: true}"
by encrypted-comment.yaml comment.yaml "{age: $a, encrypted_comment_regex: sealed}"
by unencrypted-comment.yaml comment.yaml "{age: $a, unencrypted_comment_regex: open}"
seal whole.yaml secret.yaml --age $a
seal several.yaml several.yaml --age $a --encrypted-regex "$fields"
seal list.yaml list.yaml --age $a --encrypted-regex "$fields"
seal secret.json secret.json --age $a --encrypted-regex "$fields"
seal types.yaml types.yaml --age $a --encrypted-regex "$fields"
seal configmap.yaml configmap.yaml --age $a --encrypted-regex "$fields"
seal for-b.yaml secret.yaml --age $b --encrypted-regex "$fields"
seal for-both.yaml secret.yaml --age $b,$a --pgp "$pgp_rsa2048" --encrypted-regex "$fields"
seal pgp-ed25519.yaml secret.yaml --pgp "$pgp_ed25519" --encrypted-regex "$fields"
seal pgp-rsa2048.yaml secret.yaml --pgp "$pgp_rsa2048" --encrypted-regex "$fields"
seal env.env plain.env --age $a
seal binary.bin plain.bin --age $a
by groups.yaml secret.yaml "{shamir_threshold: 2, encrypted_regex: $fields, key_groups: [{age: [$a]}, {age: [$b]}]}"
sops rotate sealed/regex.yaml >sealed/rotated.yaml
