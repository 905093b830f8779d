"""What the driver's Xid numbers mean, for those a rule speaks of.

48, 63 and 64: NVIDIA's page on page retirement (docs.nvidia.com/deploy/dynamic-page-retirement). The other numbers are
those of rules.md, to be read against NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors), of which only the
first rows could be read here. The words are ours.
"""

from __future__ import annotations

# A reset, a reboot or a technician is needed.
HARDWARE = {
    48: "uncorrectable memory error", 62: "internal micro-controller halt", 64: "row remapping or retirement failed",
    74: "NVLink error", 79: "fell off the bus", 95: "uncontained memory error", 119: "GSP firmware does not answer",
    120: "GSP firmware error", 140: "unrecovered memory error", 143: "initialisation failed", 144: "NVLink SAW error",
    145: "NVLink RLW error", 146: "NVLink TLW error", 147: "NVLink TREX error", 148: "NVLink control error",
    149: "NVLink NETIR error", 150: "NVLink MSE error", 154: "recovery action changed",
}  # fmt: skip
# A program's fault, or handled by the GPU itself.
HARMLESS = {
    13: "graphics engine exception", 31: "page fault of a program", 43: "stopped by a program's fault",
    45: "work of a program removed", 63: "row remapped or page retired", 92: "many corrected memory errors",
    94: "contained memory error",
}  # fmt: skip
# With a sign of it still there now they are an error.
FATAL = frozenset({64, 79, 95, 119, 120})
# After these a driver that does not answer is a sign of it.
SILENCING = frozenset({79, 119, 120})
_MOST_KEPT = 20  # of one number and GPU the kernel log's probe keeps the last lines only


def in_words(numbers: list[int]) -> str:
    """What was logged, each number once.

    >>> in_words([119, 119, 13])
    'Xid 119 (GSP firmware does not answer) 2 times, Xid 13 (graphics engine exception)'
    """
    meaning = HARDWARE | HARMLESS
    parts = []
    for number in dict.fromkeys(numbers):
        times = numbers.count(number)
        often = "" if times == 1 else f" {times} times" if times < _MOST_KEPT else f" {times} times or more"
        parts.append(f"Xid {number} ({meaning.get(number, 'see the catalogue')}){often}")
    return ", ".join(parts)
