#!/bin/sh
# drain.sh "topocheck: PCI001 gpu5 x8 of x16 -45%"   drains this node with that reason
# drain.sh                                           resumes it, if it was drained with a reason of topocheck's
# The reason of another tool or person is left as it is. Slurm asks prologs not to call its commands: this one is called
# at most once, only on failure, and given 5 seconds.
SCONTROL=/usr/bin/scontrol
NODE=${SLURMD_NODENAME:?is not set: not called by slurmd}

now=$(/usr/bin/timeout 5 "$SCONTROL" show node "$NODE") || exit 0
reason=$(echo "$now" | /bin/sed -n 's/^ *Reason=//p')
case $#:$reason in
    1: | 1:"topocheck: "*) /usr/bin/timeout 5 "$SCONTROL" update nodename="$NODE" state=drain reason="$1" ;;
    0:"topocheck: "*) /usr/bin/timeout 5 "$SCONTROL" update nodename="$NODE" state=resume ;;
esac
exit 0
