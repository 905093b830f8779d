#!/bin/sh
# A report of every node through ssh and ClusterShell, then what they say together; running jobs are not disturbed.
NODES='gpu[001-128]'
REPORTS=reports.txt

# -f: how many nodes at a time; -u: seconds until one that hangs is given up. A line a node: "gpu017: {…}".
clush -w "$NODES" -f 64 -u 60 "/usr/local/bin/topocheck node --format json --fail-on never" < /dev/null > "$REPORTS"
/usr/local/bin/topocheck fleet "$REPORTS" --expect "$NODES"
