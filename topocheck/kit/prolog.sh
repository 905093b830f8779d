#!/bin/sh
# Slurm prolog (Prolog=, with PrologFlags=Alloc). Ends with 1, which drains the node, only where topocheck says what is
# wrong: status 1, a line of its own, this run's report. All else (missing, broken, killed) lets the job start, logged.
GATE=/usr/local/bin/topocheck     # absolute: a prolog has no PATH
OPTIONS="--cache 60"              # and perhaps --policy /etc/topocheck/policy.toml
STATE=/var/lib/topocheck
FAIL_CLOSED=no                    # yes: what could not be told fails the job, too
DRY_RUN=no                        # yes: log what would fail a job, and let it start
DRAIN=                            # /etc/topocheck/drain.sh: topocheck's own words for a drain reason

say() { # to slurmd's log, which keeps what a failing prolog prints, and to the gate's
    echo "$1"
    { echo "$(/bin/date -u +%Y-%m-%dT%H:%M:%SZ) prolog, job ${SLURM_JOB_ID:-none}: $1" >> "$STATE/gate.log"; } 2> /dev/null
}

report=$STATE/gate-job-${SLURM_JOB_ID:-none}-$$.json
newline='
'
[ "$FAIL_CLOSED" = yes ] && OPTIONS="$OPTIONS --fail-closed"
output="$GATE is not there or cannot be run" status=127
if [ -f "$GATE" ] && [ -x "$GATE" ]; then
    # shellcheck disable=SC2086 # options are words
    output=$("$GATE" gate $OPTIONS --state "$STATE" --output "$report" 2>&1 < /dev/null)
    status=$?
fi
[ "$status" = 0 ] && exit 0
line=${output%%"$newline"*} proven=no
case $status:$line in 1:"topocheck: "*) [ -f "$report" ] && proven=yes ;; esac
line=${line:-topocheck: no verdict: ended with status $status}
if [ "$proven$FAIL_CLOSED" = nono ]; then
    say "topocheck gave no verdict (status $status), the job starts: $line"
elif [ "$DRY_RUN" = yes ]; then
    say "would have failed the job: $line"
else
    [ -n "$DRAIN" ] && "$DRAIN" "$line"
    say "$line"
    exit 1
fi
exit 0
