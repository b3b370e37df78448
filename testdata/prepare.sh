#!/bin/sh
# Installs what the tests need from the system: git with its HTTP backend, curl for the scripts of
# examples/ci, and an SSH server that the tests start for themselves.
set -eu
if command -v apt-get >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q
	apt-get install -yq --no-install-recommends curl git openssh-server
elif command -v dnf >/dev/null; then
	dnf install -yq curl git openssh-server
elif command -v apk >/dev/null; then
	apk add --no-cache curl git git-daemon openssh
else
	echo "install curl, git and openssh-server, then run make test again" >&2
	exit 1
fi
