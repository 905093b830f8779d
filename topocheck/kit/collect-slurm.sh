#!/bin/sh
# A report of every idle node of a Slurm partition, then what they say together. Nodes that are busy, down or silent are
# named as missing. The nodes say more when root asks them (ACS, PCIe error counters).
PARTITION=main
GPUS=8                            # all of a node's, since a job sees no others; empty: Slurm hands out none
OPTIONS=                          # perhaps --account=…, --reservation=…
REPORTS=reports.txt

all=$(sinfo -h -p "$PARTITION" -o %N)
idle=$(sinfo -h -p "$PARTITION" -t idle -o %N)
[ -n "$idle" ] || { echo "no node of $PARTITION is idle" >&2; exit 2; }

# -l: srun sends lines in pieces of a kilobyte and mixes those of all nodes; by its labels they are put together again.
# shellcheck disable=SC2086 # options are words
srun -l -p "$PARTITION" -w "$idle" --ntasks-per-node=1 --exclusive --time=5 ${GPUS:+--gpus-per-node=$GPUS} $OPTIONS \
    /usr/local/bin/topocheck node --format json --fail-on never < /dev/null > "$REPORTS"
/usr/local/bin/topocheck fleet "$REPORTS" --expect "$all"
