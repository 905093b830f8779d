#!/bin/sh
# HealthCheckProgram= (HealthCheckInterval=300, HealthCheckNodeState=ANY): slurmd only logs its exit code, so it drains and
# resumes by itself. It has no environment but SLURMD_NODENAME. What could not be told changes nothing.
GATE=/usr/local/bin/topocheck
OPTIONS=                          # perhaps --policy /etc/topocheck/policy.toml
DRAIN=/etc/topocheck/drain.sh
export SLURM_CONF=/etc/slurm/slurm.conf

# shellcheck disable=SC2086 # options are words
output=$("$GATE" gate $OPTIONS 2>&1 < /dev/null)
case $?:$output in
    0:) "$DRAIN" ;;
    1:"topocheck: "*) "$DRAIN" "$(echo "$output" | /usr/bin/head -n 1)" ;;
esac
exit 0
