"""The gate: may this job run on this node? It passes in doubt, and says in one line why it does not.

job       whose GPUs: what Slurm says of the job
reading   this machine → a reading: the node's report, and what of it could fail which job
decision  reading and job → what fails it (plain data: a cached reading is decided upon at once)
drill     a fault that is not there
state     where readings, reports and the log are kept
work      one call from beginning to end
guard     the child process that does the work, and what is said if it does not answer
show      the files of `topocheck/kit/`
"""
