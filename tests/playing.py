"""A discrete-event simulation of collectives: every message of every rank, on ports that do one thing at a time.

A rank sends one message and receives one at a time (full duplex); a message starts when its sender holds what it
sends and both ports are free, and takes α + bytes·β. What a rank holds is followed contribution by contribution, so a
schedule that forgets one is seen. Nothing here is taken from topocheck.
"""

from math import log2


class Ranks:
    """held[rank][chunk]: whose contributions; at[rank][chunk]: since when."""

    def __init__(self, p, alpha, beta):
        self.p, self.alpha, self.beta = p, alpha, beta
        self.held = [{} for _ in range(p)]
        self.at = [{} for _ in range(p)]
        self.sending, self.receiving = [0.0] * p, [0.0] * p
        self.sent, self.received = [0.0] * p, [0.0] * p

    def give(self, rank, chunk, who):
        self.held[rank][chunk] = frozenset(who)
        self.at[rank][chunk] = 0.0

    def send(self, a, b, chunks, size, *, add=False, price=None):
        """From a to b; `size` of all chunks together; `price` another (α, β) than the network's."""
        alpha, beta = price or (self.alpha, self.beta)
        start = max([self.sending[a], self.receiving[b], *(self.at[a][c] for c in chunks)])
        if add:
            start = max([start, *(self.at[b][c] for c in chunks)])
        end = start + alpha + size * beta
        self.sending[a] = self.receiving[b] = end
        self.sent[a] += size
        self.received[b] += size
        moved = {c: self.held[a][c] | (self.held[b].get(c, frozenset()) if add else frozenset()) for c in chunks}
        self.held[b].update(moved)
        self.at[b].update(dict.fromkeys(chunks, end))

    def together(self, messages, **how):
        """Messages of one round: all are sent as things stand when the round begins."""
        held = [dict(h) for h in self.held]
        at = [dict(t) for t in self.at]
        new_held, new_at = [], []
        for a, b, chunks, size in messages:
            now_held, now_at = self.held, self.at
            self.held, self.at = [dict(h) for h in held], [dict(t) for t in at]
            self.send(a, b, chunks, size, **how)
            new_held.append((b, {c: self.held[b][c] for c in chunks}))
            new_at.append((b, {c: self.at[b][c] for c in chunks}))
            self.held, self.at = now_held, now_at
        for (b, changes), (_, times) in zip(new_held, new_at, strict=True):
            self.held[b].update(changes)
            self.at[b].update(times)

    @property
    def time(self):
        return max([*self.sending, *self.receiving])

    @property
    def busiest(self):
        return max([*self.sent, *self.received])


def everyone(p):
    return frozenset(range(p))


def own_vectors(p, alpha, beta, chunks):
    ranks = Ranks(p, alpha, beta)
    for r in range(p):
        for c in range(chunks):
            ranks.give(r, c, {r})
    return ranks


def broadcast_root(p, n, alpha, beta):
    ranks = Ranks(p, alpha, beta)
    ranks.give(0, 0, {0})
    for r in range(1, p):
        ranks.send(0, r, [0], n)
    return ranks, all(h.get(0) == {0} for h in ranks.held)


def broadcast_tree(p, n, alpha, beta):
    ranks = Ranks(p, alpha, beta)
    ranks.give(0, 0, {0})
    reach = 1
    while reach < p:
        for r in range(min(reach, p - reach)):
            ranks.send(r, r + reach, [0], n)
        reach *= 2
    return ranks, all(h.get(0) == {0} for h in ranks.held)


def broadcast_chain(p, n, alpha, beta, chunks=1):
    ranks = Ranks(p, alpha, beta)
    for c in range(chunks):
        ranks.give(0, c, {0})
    for c in range(chunks):
        for r in range(p - 1):
            ranks.send(r, r + 1, [c], n / chunks)
    return ranks, all(len(h) == chunks for h in ranks.held)


def reduce_root(p, n, alpha, beta):
    ranks = own_vectors(p, alpha, beta, 1)
    for r in range(1, p):
        ranks.send(r, 0, [0], n, add=True)
    return ranks, ranks.held[0][0] == everyone(p)


def _reduce_tree(ranks, n):
    step = 1
    while step < ranks.p:
        for r in range(0, ranks.p - step, 2 * step):
            ranks.send(r + step, r, [0], n, add=True)
        step *= 2


def reduce_tree(p, n, alpha, beta):
    ranks = own_vectors(p, alpha, beta, 1)
    _reduce_tree(ranks, n)
    return ranks, ranks.held[0][0] == everyone(p)


def allreduce_root(p, n, alpha, beta):
    ranks, _ = reduce_root(p, n, alpha, beta)
    for r in range(1, p):
        ranks.send(0, r, [0], n)
    return ranks, all(h[0] == everyone(p) for h in ranks.held)


def allreduce_tree(p, n, alpha, beta):
    ranks = own_vectors(p, alpha, beta, 1)
    _reduce_tree(ranks, n)
    reach = 1
    while reach < p:
        for r in range(min(reach, p - reach)):
            ranks.send(r, r + reach, [0], n)
        reach *= 2
    return ranks, all(h[0] == everyone(p) for h in ranks.held)


def gather_root(p, n, alpha, beta):
    ranks = Ranks(p, alpha, beta)
    for r in range(p):
        ranks.give(r, r, {r})
    for r in range(1, p):
        ranks.send(r, 0, [r], n / p)
    return ranks, len(ranks.held[0]) == p


def gather_tree(p, n, alpha, beta):
    ranks = Ranks(p, alpha, beta)
    for r in range(p):
        ranks.give(r, r, {r})
    step = 1
    while step < p:
        for r in range(0, p - step, 2 * step):
            parts = list(range(r + step, min(p, r + 2 * step)))
            ranks.send(r + step, r, parts, len(parts) * n / p)
        step *= 2
    return ranks, len(ranks.held[0]) == p


def scatter_root(p, n, alpha, beta):
    ranks = Ranks(p, alpha, beta)
    for r in range(p):
        ranks.give(0, r, {0})
    for r in range(1, p):
        ranks.send(0, r, [r], n / p)
    return ranks, all(r in ranks.held[r] for r in range(p))


def scatter_tree(p, n, alpha, beta):
    ranks = Ranks(p, alpha, beta)
    for r in range(p):
        ranks.give(0, r, {0})
    step = 1 << ((p - 1).bit_length() - 1)
    while step:
        for r in range(0, p - step, 2 * step):
            parts = list(range(r + step, min(p, r + 2 * step)))
            ranks.send(r, r + step, parts, len(parts) * n / p)
        step //= 2
    return ranks, all(r in ranks.held[r] for r in range(p))


def _scatter_reduce_ring(ranks, n):
    """Round s: rank i sends chunk (i − s) mod p to i + 1, which adds."""
    p = ranks.p
    for s in range(p - 1):
        ranks.together([(i, (i + 1) % p, [(i - s) % p], n / p) for i in range(p)], add=True)


def reducescatter_ring(p, n, alpha, beta):
    ranks = own_vectors(p, alpha, beta, p)
    _scatter_reduce_ring(ranks, n)
    return ranks, all(ranks.held[i][(i + 1) % p] == everyone(p) for i in range(p))


def allreduce_ring(p, n, alpha, beta):
    ranks = own_vectors(p, alpha, beta, p)
    _scatter_reduce_ring(ranks, n)
    for s in range(p - 1):
        ranks.together([(i, (i + 1) % p, [(i - s + 1) % p], n / p) for i in range(p)])
    return ranks, all(h[c] == everyone(p) for h in ranks.held for c in range(p))


def allgather_ring(p, n, alpha, beta):
    ranks = Ranks(p, alpha, beta)
    for r in range(p):
        ranks.give(r, r, {r})
    for s in range(p - 1):
        ranks.together([(i, (i + 1) % p, [(i - s) % p], n / p) for i in range(p)])
    return ranks, all(len(h) == p for h in ranks.held)


def _halving(ranks, core, n):
    """Who ends with which chunk: its own number."""
    span = core // 2
    while span:
        messages = []
        for i in range(core):
            other = i ^ span
            messages.append((i, other, [c for c in range(core) if _same(c, other, core, span)], n * span / core))
        ranks.together(messages, add=True)
        span //= 2


def _same(chunk, rank, core, span):
    """Whether a chunk belongs to the part that `rank` keeps when blocks of `span` are halved."""
    return chunk // span == rank // span and core >= span


def _doubling(ranks, core, n):
    span = 1
    while span < core:
        messages = []
        for i in range(core):
            first = i // span * span
            messages.append((i, i ^ span, list(range(first, first + span)), n * span / core))
        ranks.together(messages)
        span *= 2


def reducescatter_halving(p, n, alpha, beta):
    ranks = own_vectors(p, alpha, beta, p)
    _halving(ranks, p, n)
    return ranks, all(ranks.held[i][i] == everyone(p) for i in range(p))


def allgather_doubling(p, n, alpha, beta):
    ranks = Ranks(p, alpha, beta)
    for r in range(p):
        ranks.give(r, r, {r})
    _doubling(ranks, p, n)
    return ranks, all(len(h) == p for h in ranks.held)


def allreduce_halving_doubling(p, n, alpha, beta):
    core = 1 << int(log2(p))
    ranks = own_vectors(p, alpha, beta, core)
    chunks = list(range(core))
    for extra in range(core, p):
        ranks.send(extra, extra - core, chunks, n, add=True)
    _halving(ranks, core, n)
    _doubling(ranks, core, n)
    for extra in range(core, p):
        ranks.send(extra - core, extra, chunks, n)
    return ranks, all(h[c] == everyone(p) for h in ranks.held for c in chunks)


def alltoall_pairwise(p, n, alpha, beta):
    ranks = Ranks(p, alpha, beta)
    for a in range(p):
        for b in range(p):
            ranks.give(a, (a, b), {a})
    for s in range(1, p):
        for i in range(p):
            ranks.send(i, (i + s) % p, [(i, (i + s) % p)], n / p)
    return ranks, all((a, b) in ranks.held[b] for a in range(p) for b in range(p))


def alltoall_bruck(p, n, alpha, beta):
    """A part goes to its destination by the bits of its distance."""
    ranks = Ranks(p, alpha, beta)
    for a in range(p):
        for b in range(p):
            ranks.give(a, (a, b), {a})
    place = {(a, b): a for a in range(p) for b in range(p)}
    for bit in range((p - 1).bit_length()):
        moving = {r: [] for r in range(p)}
        for (a, b), at in place.items():
            if (b - a) % p >> bit & 1:
                moving[at].append((a, b))
        messages = [(r, (r + (1 << bit)) % p, parts, len(parts) * n / p) for r, parts in moving.items() if parts]
        ranks.together(messages)
        for _, b, parts, _ in messages:
            place.update(dict.fromkeys(parts, b))
    return ranks, all(at == b for (_, b), at in place.items())


def barrier_dissemination(p, n, alpha, beta):
    ranks = own_vectors(p, alpha, beta, 1)
    step = 1
    while step < p:
        ranks.together([(i, (i + step) % p, [0], 0.0) for i in range(p)], add=True)
        step *= 2
    return ranks, all(h[0] == everyone(p) for h in ranks.held)


def allreduce_in_the_switch(p, n, alpha, beta):
    """Rank r hangs on port p + r of a switch whose ports add up what the others have, in no time."""
    ranks = Ranks(2 * p, alpha, beta)
    for r in range(p):
        ranks.give(r, 0, {r})
        ranks.send(r, p + r, [0], n)
    full = max(ranks.at[p + r][0] for r in range(p))
    for r in range(p):
        ranks.held[p + r][0], ranks.at[p + r][0] = everyone(p), full
        ranks.send(p + r, r, [0], n)
    return ranks, all(ranks.held[r][0] == everyone(p) for r in range(p))


def buckets(pieces, piece_us, cover_us):
    """What waits after a pass of `cover_us` that makes a piece every cover/pieces, sent one after the other."""
    free = 0.0
    for piece in range(1, pieces + 1):
        free = max(free, piece * cover_us / pieces) + piece_us
    return free - cover_us


def hierarchical(n, gpus, nodes, inside, between):
    """allreduce by level; `inside` and `between` are (α, β)."""
    p = gpus * nodes
    ranks = own_vectors(p, *between, gpus * nodes)  # chunk g·N + k: part k of what GPU g of every node owns

    def parts(g):
        return [g * nodes + k for k in range(nodes)]

    for s in range(gpus - 1):
        ranks.together(
            [
                (m * gpus + g, m * gpus + (g + 1) % gpus, parts((g - s - 1) % gpus), n / gpus)
                for m in range(nodes)
                for g in range(gpus)
            ],
            add=True,
            price=inside,
        )
    for phase, shift in ((True, 0), (False, 1)):
        for s in range(nodes - 1):
            ranks.together(
                [
                    (m * gpus + g, (m + 1) % nodes * gpus + g, [g * nodes + (m - s + shift) % nodes], n / p)
                    for m in range(nodes)
                    for g in range(gpus)
                ],
                add=phase,
                price=between,
            )
    for s in range(gpus - 1):
        ranks.together(
            [
                (m * gpus + g, m * gpus + (g + 1) % gpus, parts((g - s) % gpus), n / gpus)
                for m in range(nodes)
                for g in range(gpus)
            ],
            price=inside,
        )
    return ranks, all(h[c] == everyone(p) for h in ranks.held for c in range(p))
