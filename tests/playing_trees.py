"""The double tree, played by events: see playing.py for the rules of the game."""


def double_tree(p, n, alpha, beta, chunks):
    """allreduce over two binary trees, half of the vector each, in chunks, up and down at once: whatever can start
    earliest starts. Returns the time, and the most that any rank sends or receives."""
    done, sending, receiving = {}, [0.0] * p, [0.0] * p
    sent, received = [0.0] * p, [0.0] * p
    size = n / (2 * chunks)
    open_ = {}
    for tree in (0, 1):
        parent = _tree_parents(p, shift=tree)
        children = {r: [c for c in range(p) if parent[c] == r] for r in range(p)}
        root = parent.index(None)
        for chunk in range(chunks):
            for r in range(p):
                if parent[r] is None:
                    continue
                up, down = (tree, chunk, "up", r), (tree, chunk, "down", r)
                open_[up] = (r, parent[r], [(tree, chunk, "up", c) for c in children[r]])
                above = parent[r]
                waits = (
                    [(tree, chunk, "up", c) for c in children[root]]
                    if above == root
                    else [(tree, chunk, "down", above)]
                )
                open_[down] = (above, r, waits)
    while open_:
        ready = [
            (max([sending[a], receiving[b], *(done[w] for w in waits)]), name[1], name[2], name[3], name[0], name)
            for name, (a, b, waits) in open_.items()
            if all(w in done for w in waits)
        ]
        start, *_, name = min(ready)
        a, b, _ = open_.pop(name)
        done[name] = sending[a] = receiving[b] = start + alpha + size * beta
        sent[a] += size
        received[b] += size
    return max(done.values()), max([*sent, *received])


def _tree_parents(p, shift):
    """A binary tree whose leaves are the odd ranks; the second is its mirror, so that (p even) inner ranks of one are
    leaves of the other."""

    def above(rank):
        if rank == 0:
            return None
        bit = rank & -rank
        up = rank ^ bit | bit << 1
        return up if up < p else rank ^ bit

    if not shift:
        return [above(rank) for rank in range(p)]
    mirrored = [above(p - 1 - rank) for rank in range(p)]
    return [None if up is None else p - 1 - up for up in mirrored]
