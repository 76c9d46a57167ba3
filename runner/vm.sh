#!/usr/bin/env bash
# Runs the tests of isolation on a machine of their own, with a kernel of Debian's and nothing installed but qemu
# (qemu-system-x86). Usage: vm.sh CACHE-FOLDER
set -euo pipefail
to=${1:?usage: vm.sh CACHE-FOLDER}
command -v qemu-system-x86_64 >/dev/null || { echo "vm.sh: there is no qemu-system-x86_64 here (Debian: qemu-system-x86)" >&2; exit 1; }
mkdir -p "$to"
kernel=$(find "$to" -name 'vmlinuz-*' | head -1)
if [ -z "$kernel" ]; then
  package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
  (cd "$to" && apt-get download "$package" && dpkg -x linux-image-*.deb . && rm -f linux-image-*.deb)
  kernel=$(find "$to" -name 'vmlinuz-*' | head -1)
fi
BERTH_VM_KERNEL=$kernel exec go test -count=1 -v -timeout 15m -run '^TestFullIsolation$' ./runner
