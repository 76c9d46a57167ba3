#!/usr/bin/env bash
# Unpacks a container engine for the tests into a folder, installing nothing: Debian's packages of Docker, of a release
# that knows CDI. Usage: fetch.sh FOLDER
set -euo pipefail
to=${1:?usage: fetch.sh FOLDER}
no() { echo "fetch.sh: $*: have dockerd 25 or newer in PATH instead" >&2; exit 1; }
command -v apt-get >/dev/null && command -v dpkg >/dev/null || no "there is no apt-get here"
. /etc/os-release
[ "$ID" = debian ] || no "the packages are Debian's, and this is $ID"
case $VERSION_CODENAME in
bullseye | bookworm) suite=trixie ;; # their own Docker is too old for CDI
*) suite=$VERSION_CODENAME ;;
esac
mkdir -p "$(dirname "$to")"
to=$(cd "$(dirname "$to")" && pwd)/$(basename "$to")
work=$(mktemp -d)
trap 'rm -rf "$work" "$to.new"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/debs"
cd "$work/debs"
mirror=$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null | head -1 | tr -d ' ' || true)

# fetch SUITE PACKAGE...: downloads from the mirror of the machine's own sources.
fetch() {
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} $1 main" >"$work/$1.list"
	local o=(-o Dir::Etc::SourceParts=/dev/null -o "Dir::Etc::SourceList=$work/$1.list" -o "Dir::State::Lists=$work/lists"
		-o "Dir::Cache::archives=$work/archives" -o APT::Sandbox::User= -o Acquire::Languages=none)
	apt-get "${o[@]}" -qq update
	apt-get "${o[@]}" -qq download "${@:2}"
}
fetch "$VERSION_CODENAME" runc tini # linked with this machine's C library; a newer release's want a newer one
fetch "$suite" docker.io containerd
rm -rf "$to.new"
for deb in *.deb; do dpkg -x "$deb" "$to.new"; done
rm -rf "$to.new/usr/share" "$to"
mv "$to.new" "$to"
"$to/usr/sbin/dockerd" --version
