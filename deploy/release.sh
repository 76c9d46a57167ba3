#!/usr/bin/env bash
# Builds the tarball of a release and its SHA256SUMS. Usage: release.sh VERSION FOLDER
# Two builds of one commit by the same Go and gcc give the same bytes: no path, no time and no user of the builder is in it.
set -euo pipefail
version=${1:?usage: release.sh VERSION FOLDER} to=${2:?usage: release.sh VERSION FOLDER}
mkdir -p "$to" && to=$(cd "$to" && pwd)
cd "$(dirname "$0")/.."
made=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
name=berth-$version-$(go env GOOS)-$(go env GOARCH)
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
out=$work/$name && mkdir -p "$out/bin"

export CGO_CFLAGS="-O1 -Wno-deprecated-declarations"
flags="-s -w -buildid= -X github.com/berthq/berth/internal/version.Version=$version"
# worker and berth load NVIDIA's library at run time, which takes libc; submit is static.
CGO_ENABLED=1 go build -trimpath -buildvcs=false -ldflags "$flags" -o "$out/bin/" ./cmd/worker ./cmd/berth
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "$flags" -o "$out/bin/" ./cmd/submit
ln -s worker "$out/bin/berth-worker"
ln -s submit "$out/bin/berth-submit"

CGO_ENABLED=0 go run ./internal/release/pages "$out" "$version" "$made"
cp LICENSE README.md CHANGELOG.md "$out/"
cp -r docs/schema "$out/schema"
chmod -R u=rwX,go=rX "$out"

tar -C "$work" --sort=name --mtime="@$made" --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$name" | gzip -9n > "$to/$name.tar.gz"
(cd "$to" && sha256sum "$name.tar.gz" > SHA256SUMS && cat SHA256SUMS)
