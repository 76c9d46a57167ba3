#!/bin/bash
#SBATCH --job-name=from-slurm
#SBATCH --gres=gpu:1
#SBATCH --time=10
#SBATCH --array=1-3%2
#SBATCH --mail-type=END
# A script as it was written for Slurm. What means nothing here (the mail) is listed and left out; what is typed wins.
#   submit examples/slurm.sh          submit --time 20 examples/slurm.sh
echo "scan $BERTH_ARRAY_INDEX on GPU $BERTH_GPU_INDICES"
