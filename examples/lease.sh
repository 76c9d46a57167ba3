#!/bin/sh
# GPUs for shell scripts: leases out of the same pool as jobs. Needs a worker on this machine (berth up, or worker).
# Every option of the founding GPU lock has its verb here: docs/gpu-lock.md.
set -eu

# One GPU for this script. --pid $$ gives it back when the script ends, also when it is killed.
CUDA_VISIBLE_DEVICES=$(berth lease get --pid $$ --short)
export CUDA_VISIBLE_DEVICES
echo "working on $CUDA_VISIBLE_DEVICES"
berth lease release "$CUDA_VISIBLE_DEVICES"

# A program that wants the GPU's integer id.
GPUID=$(berth lease get --pid $$ --short=index)
echo "kct-krylov -p 0:$GPUID"
berth lease release --gpus "$GPUID"

# Two GPUs if they are free now, else go on without: exit code 6 says "nothing free".
if both=$(berth lease get -g 2 --wait 0 --pid $$ --short=index); then
    echo "two at once: $both"
    berth lease release --gpus "$both"
else
    echo "no two GPUs are free"
fi

# Lease, run here, release, whatever happens; the exit code is the command's.
berth run -- sh -c 'echo "a command on GPU $BERTH_GPU_INDICES"'
berth run -- echo "kct-krylov -p 0:{{.GPUIndex}}"

# One reconstruction per GPU, as many at a time as there are GPUs; the others wait their turn.
for scan in a b c; do
    berth run -- sh -c 'echo "scan $0 on GPU $BERTH_GPU_INDICES"' "$scan" &
done
wait
