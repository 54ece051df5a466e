"""The job of `toolheads.jobs.reindexing` over many processes and machines, as stages of Ray Data.

    read, check, key        a row for each line: which tool, which row of the index
    (settle)                here: which ids came before, which rows are missing
    read, embed, project    the tools whose row is missing; each batch ends as a shard of rows
    (write)                 here: the shards' rows in the order of the input, then the swap

Ray schedules the stages, keeps what is between them in bounds, and does again what was lost with a
process. Nothing of that is done here. What goes through this process is the outline of each line,
never a text or a vector; rows come one batch at a time.

Files of tools, the cache and the index must be in folders that all machines see under one path.
"""
