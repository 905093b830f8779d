"""Identifiers replaced by made-up ones of the same form, the same one everywhere, so that what is equal stays equal.

IP addresses keep their common prefixes (two hosts of one subnet stay so); MAC addresses, GUIDs and PCI serial numbers
keep the vendor's part, and one card's three forms stay those of one card. The key is made anew for every capture: what
was there cannot be found by trying.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b

HOSTS, USERS, IPS, MACS = "host names", "user names", "IP addresses", "MAC addresses"
SERIALS, UUIDS, GUIDS, TAGS = "serial numbers", "UUIDs", "GUIDs", "asset tags"

_H4 = "[0-9a-fA-F]{4}"
_UUID = re.compile(
    rf"(?<![\w])((?:GPU-|MIG-)?)([0-9a-fA-F]{{8}}(?:-{_H4}){{3}}-[0-9a-fA-F]{{12}}|[0-9a-f]{{32}})(?!\w)"
)
_GID = re.compile(rf"(?<![\w:]){_H4}(?::{_H4}){{7}}(?![\w:])")
_GUID = re.compile(rf"(?<![\w:]){_H4}(?::{_H4}){{3}}(?![\w:])")
_HEX_GUID = re.compile(r"(?<!\w)(0x|[SHR]-)((?!0000|ffff)[0-9a-fA-F]{16})(?!\w)")
_DASHED = re.compile(r"(?<![\w-])[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){7}(?![\w-])")
_IPOIB = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}:){19}[0-9a-fA-F]{2}(?![\w:])")
_MAC = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])")
_MAC_NAME = re.compile(r"\b(enx|wlx|ibx)([0-9a-f]{12})\b")
_IPV4 = re.compile(r"(?<![\w.])(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})(?!\.?\w)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9a-fA-F:]{0,39}::)(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{1,4}(?![\w:.])")
_HOME = re.compile(r"(/home/)([A-Za-z_][\w.-]{0,63})")
_MAIL = re.compile(r"(?<![\w.@-])[A-Za-z_][\w.+-]{0,63}@[A-Za-z][\w-]{0,62}(?:\.[\w-]{1,63}){0,8}")
_SERIAL = re.compile(
    r"(?i)(?:serial(?:[ _-]?n(?:umber|o))?|\[sn\][^:\n]{0,30})[\"'>]?[ \t]{0,40}[:=>][ \t]{0,40}[\"']?([\w-]{6,40})"
)
_PLAIN_NAME = re.compile(r"(?i)(?:gpu|node|cpu|nic|numa|socket|eth|mlx5?_?)[_-]?\d{1,2}")
_CLOUD_TAG = re.compile(r"(?i)7783-7084-3265-9085-8269-3286-77|[a-z .]*|amazon ec2|oraclecloud\.com")
_DSN, _MAX_CAPABILITIES = 0x03, 48


class Scrubber:
    """Replaces identifiers in texts; `hosts` are the names it knows, `seen` counts what it replaced by kind."""

    def __init__(self, key: bytes, hosts: Iterable[str] = ()) -> None:
        self._key = key
        self._names: dict[str, str] = {}
        self._serials: dict[str, str] = {}
        self.seen: dict[str, set[str]] = {}
        self._hosts = sorted({part for host in hosts for part in (host, host.partition(".")[0]) if part}, key=len)
        self._bit = lru_cache(maxsize=1 << 16)(self._bit_of)
        self._known: re.Pattern[str] | None = None

    def learn(self, text: str) -> None:
        """Note the serial numbers a text names: they may stand elsewhere without that word."""
        for match in _SERIAL.finditer(text):
            if sum(char.isdigit() for char in match[1]) >= 4:
                self._serials.setdefault(match[1], self._like(match[1]))
        self._known = None

    def text(self, text: str) -> str:
        """The text with every identifier replaced."""
        if text.strip() in self._hosts:
            return text.replace(text.strip(), self._host(text.strip()))
        for pattern, replaced in self._patterns():
            text = pattern.sub(replaced, text)
        return text

    def data(self, path: str, data: bytes) -> bytes:
        """A file's bytes: PCI config space has a serial number, all else is text."""
        if path.endswith("/config"):
            return self._config(data)
        text = data.decode("utf-8", "surrogateescape")
        if path.endswith("asset_tag") and not _CLOUD_TAG.fullmatch(text.strip()):
            return self._note(TAGS, text, self._like(text)).encode("utf-8", "surrogateescape")
        return self.text(text).encode("utf-8", "surrogateescape")

    def host(self, name: str) -> str:
        """A name that is known to be a host's."""
        return self._host(name)

    @property
    def scrubbed(self) -> list[str]:
        """What was replaced, and how many of each."""
        return [f"{kind} ({len(values)})" for kind, values in sorted(self.seen.items())]

    def _patterns(self) -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
        known = self._known_words()
        return [
            (_UUID, self._uuid), (_GID, self._gid), (_GUID, self._guid), (_HEX_GUID, self._hex_guid),
            (_DASHED, self._dashed), (_IPOIB, self._ipoib), (_MAC, self._mac), (_MAC_NAME, self._mac_name),
            (_IPV4, self._ipv4), (_IPV6, self._ipv6), (_MAIL, self._mail), (_HOME, self._home),
            *([(known, self._word)] if known else []),
        ]  # fmt: skip

    def _known_words(self) -> re.Pattern[str] | None:
        """Host names that cannot be mistaken for a word of a tool, and serial numbers."""
        if self._known is None and (self._hosts or self._serials):
            strong = [
                h for h in self._hosts if len(h) >= 6 and re.search(r"[\d.-]", h) and not _PLAIN_NAME.fullmatch(h)
            ]
            hosts = [rf"(?<![\w-]){re.escape(host)}(?:\.[A-Za-z][\w-]*)*(?![\w-])" for host in reversed(strong)]
            serials = [re.escape(serial) for serial in sorted(self._serials, key=len, reverse=True)]
            self._known = re.compile("|".join([*hosts, *serials]) or r"(?!)")
        return self._known

    def _word(self, match: re.Match[str]) -> str:
        word = match[0]
        if word in self._serials:
            return self._note(SERIALS, word, self._serials[word])
        return self._host(word)

    def _host(self, name: str) -> str:
        short = name.partition(".")[0]
        number = len({v for v in self._names.values() if v.startswith("host")}) + 1
        return self._note(HOSTS, short, self._names.setdefault(f"host {short}", f"host{number}"))

    def _user(self, name: str) -> str:
        number = len({v for v in self._names.values() if v.startswith("user")}) + 1
        return self._note(USERS, name, self._names.setdefault(f"user {name}", f"user{number}"))

    def _mail(self, match: re.Match[str]) -> str:
        user, _, host = match[0].partition("@")
        return f"{self._user(user)}@{self._host(host)}"

    def _home(self, match: re.Match[str]) -> str:
        return match[1] + self._user(match[2])

    def _note(self, kind: str, value: str, replaced: str) -> str:
        self.seen.setdefault(kind, set()).add(value)
        return replaced

    def _digest(self, *parts: object) -> bytes:
        return blake2b(repr(parts).encode(), key=self._key, digest_size=32).digest()

    def _bit_of(self, kind: str, length: int, prefix: int) -> int:
        return self._digest(kind, length, prefix)[0] & 1

    def _bits(self, kind: str, value: int, width: int) -> int:
        """Another number of as many bits; numbers that begin alike still do, for as many bits."""
        made = 0
        for place in range(width):
            bit = value >> (width - 1 - place) & 1
            made = made << 1 | (bit ^ self._bit(kind, place, value >> (width - place)))
        return made

    def _like(self, word: str) -> str:
        """A word of the same form: digits for digits, letters for letters."""
        stream = self._digest("word", word) * (len(word) // 32 + 1)
        pairs = zip(word, stream, strict=False)
        return "".join(
            str(byte % 10)
            if char.isdigit()
            else chr((65 if char.isupper() else 97) + byte % 26)
            if char.isalpha()
            else char
            for char, byte in pairs
        )

    def _uuid(self, match: re.Match[str]) -> str:
        plain = match[2].replace("-", "").lower()
        if not plain.strip("0f"):
            return match[0]
        made = self._digest("uuid", plain)[:16].hex()
        if "-" in match[2]:
            made = "-".join((made[:8], made[8:12], made[12:16], made[16:20], made[20:]))
        return self._note(UUIDS, plain, match[1] + made)

    def _guid64(self, value: int) -> int:
        """The vendor's 24 bits stay, and the 16 in the middle where they are a card's usual ones."""
        vendor, middle, low = value >> 40, value >> 24 & 0xFFFF, value & 0xFFFFFF
        if value in (0, (1 << 64) - 1):
            return value
        if middle not in (0x0000, 0x0300, 0xFFFE):
            middle = self._bits(f"middle {vendor}", middle, 16)
        self._note(GUIDS, f"{value:x}", "")
        return vendor << 40 | middle << 24 | self._bits(f"card {vendor}", low, 24)

    def _guid(self, match: re.Match[str]) -> str:
        return _groups(self._guid64(int(match[0].replace(":", ""), 16)), 64)

    def _hex_guid(self, match: re.Match[str]) -> str:
        return f"{match[1]}{self._guid64(int(match[2], 16)):016x}"

    def _dashed(self, match: re.Match[str]) -> str:
        return self._guid64(int(match[0].replace("-", ""), 16)).to_bytes(8, "big").hex("-")

    def _ipoib(self, match: re.Match[str]) -> str:
        return match[0][:36] + self._guid64(int(match[0][36:].replace(":", ""), 16)).to_bytes(8, "big").hex(":")

    def _gid(self, match: re.Match[str]) -> str:
        high, low = divmod(int(match[0].replace(":", ""), 16), 1 << 64)
        if high == 0 and low >> 32 == 0xFFFF:
            return _groups(0xFFFF << 32 | self._ip(low & 0xFFFFFFFF), 128)
        return _groups(self._subnet(high) << 64 | self._guid64(low), 128)

    def _subnet(self, high: int) -> int:
        """The first half of an IPv6 address: that of InfiniBand and of link-local addresses identifies nobody."""
        return self._bits("subnet", high, 64) if high >> 61 == 1 or high >> 57 == 0x7E else high

    def _mac48(self, value: int) -> int:
        vendor, low = divmod(value, 1 << 24)
        if value == 0 or vendor >> 16 & 1:  # none, or a group's address
            return value
        self._note(MACS, f"{value:x}", "")
        return vendor << 24 | self._bits(f"card {vendor}", low, 24)

    def _mac(self, match: re.Match[str]) -> str:
        return self._mac48(int(match[0].replace(":", ""), 16)).to_bytes(6, "big").hex(":")

    def _mac_name(self, match: re.Match[str]) -> str:
        return f"{match[1]}{self._mac48(int(match[2], 16)):012x}"

    def _ip(self, value: int) -> int:
        first, second = value >> 24, value >> 16 & 0xFF
        if first in (0, 127) or first >= 224 or (first, second) == (169, 254):
            return value
        made = self._bits("ip", value, 32)
        made = made & 0x00FFFFFF | (10 if first == 10 else 1 + (made >> 24) % 126) << 24
        self._note(IPS, str(value), "")
        return made

    def _ipv4(self, match: re.Match[str]) -> str:
        parts = [int(part) for part in match[0].split(".")]
        if max(parts) > 255:
            return match[0]
        return ".".join(str(byte) for byte in self._ip(int.from_bytes(bytes(parts), "big")).to_bytes(4, "big"))

    def _ipv6(self, match: re.Match[str]) -> str:
        from ipaddress import IPv6Address

        try:
            value = int(IPv6Address(match[0]))
        except ValueError:
            return match[0]
        high, low = divmod(value, 1 << 64)
        if value < 1 << 16 or value >> 120 == 0xFF:
            return match[0]
        self._note(IPS, str(value), "")
        return str(IPv6Address(self._subnet(high) << 64 | self._guid64(low)))

    def _config(self, data: bytes) -> bytes:
        """The Device Serial Number capability, from offset 0x100 on."""
        made, at = bytearray(data), 0x100
        for _ in range(_MAX_CAPABILITIES):
            if at < 0x100 or at + 12 > len(made):
                break
            (header,) = struct.unpack_from("<I", made, at)
            if header & 0xFFFF == _DSN:
                (serial,) = struct.unpack_from("<Q", made, at + 4)
                struct.pack_into("<Q", made, at + 4, self._guid64(serial))
            at = header >> 20 & ~3
        return bytes(made)


def _groups(value: int, bits: int) -> str:
    return ":".join(f"{value >> shift & 0xFFFF:04x}" for shift in range(bits - 16, -1, -16))
