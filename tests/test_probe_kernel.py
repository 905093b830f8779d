"""The kernel log, and the small files and commands that say which machine it is."""

import textwrap
from pathlib import Path

import pytest

from topocheck.facts import BandwidthLimit, Gap, Host, LogEvent, PciFunction
from topocheck.probes import (
    host_files,
    kernel_log,
    kernel_modules,
    nvidia_version,
    proc_cmdline,
    sysfs_pci,
    uname,
)
from topocheck.sources.open import open_source

FIXTURES = Path(__file__).parent.parent / "fixtures" / "probes"
TEXT_PROBES = [kernel_log, kernel_modules, nvidia_version, proc_cmdline, uname]


def fixture(path):
    return (FIXTURES / path).read_text()


def sample(probe):
    """The example that ends a probe's docstring."""
    return textwrap.dedent(probe.__doc__.strip("\n").rpartition("\n\n")[2])


def of(kind, facts):
    return [fact for fact in facts if isinstance(fact, kind)]


def said(facts, field):
    return [value for fact in of(Host, facts) if (value := getattr(fact, field)) is not None]


@pytest.mark.parametrize("probe", TEXT_PROBES, ids=lambda probe: probe.__name__.rpartition(".")[2])
def test_docstring_sample_is_recognised_by_its_own_probe_alone(probe):
    assert [other.INPUT for other in TEXT_PROBES if other.sniff(sample(probe))] == [probe.INPUT]


# --- the kernel log -----------------------------------------------------------------------------------------------


def test_kernel_log_sample():
    facts = list(kernel_log.parse(sample(kernel_log)))
    (limit,) = of(BandwidthLimit, facts)
    assert (limit.bdf, limit.limit_bdf, limit.speed_gts, limit.width) == ("0000:1b:00.0", "0000:15:01.0", 16.0, 16)
    assert (limit.capable_speed_gts, limit.capable_width, limit.line.line) == (32.0, 16, 4)
    assert said(facts, "kernel") == ["6.8.0-60-generic"]
    assert said(facts, "product") == ["Example Inc. GPU Server 9"]
    assert said(facts, "cmdline") == ["BOOT_IMAGE=/vmlinuz-6.8.0-60-generic root=UUID=0 ro iommu=pt"]
    assert (said(facts, "driver"), said(facts, "open_driver")) == (["580.95.05"], [True])


def hard(line, columns):
    return [line[at : at + columns] for at in range(0, len(line), columns)]


@pytest.mark.parametrize("columns", range(72, 150, 3))
@pytest.mark.parametrize("broken", [hard, textwrap.wrap], ids=["anywhere", "between words"])
def test_a_bandwidth_line_that_a_margin_broke(columns, broken):
    whole = sample(kernel_log).replace("\\\n", "").splitlines()
    parts = [part for line in whole for part in broken(line, columns)]
    (limit,) = of(BandwidthLimit, kernel_log.parse("\n".join(parts)))
    assert (limit.bdf, limit.limit_bdf, limit.capable_width) == ("0000:1b:00.0", "0000:15:01.0", 16)
    assert parts[limit.line.line - 1].startswith("[    9.1")
    assert of(LogEvent, kernel_log.parse("\n".join(parts)))[-1].number == 79


def test_bandwidth_lines_in_both_wordings_and_none_of_a_function_without_a_link():
    limits = {fact.bdf: fact for fact in of(BandwidthLimit, kernel_log.parse(fixture("kernel_log/dmesg")))}
    assert sorted(limits) == ["0000:1b:00.0", "0000:3a:00.0", "0000:3b:00.0"]
    unlimited, limited = limits["0000:3a:00.0"], limits["0000:3b:00.0"]
    assert (unlimited.limit_bdf, unlimited.speed_gts, unlimited.width) == (None, 8.0, 16)
    assert (unlimited.capable_speed_gts, unlimited.capable_width) == (8.0, 16)
    assert (limited.limit_bdf, limited.width, limited.capable_width) == ("0000:39:00.0", 8, 16)


def test_events_name_their_device_and_time():
    events = of(LogEvent, kernel_log.parse(fixture("kernel_log/dmesg")))
    assert [(event.kind, event.bdf, event.number, event.time_s) for event in events] == [
        ("driver-load", None, None, 20.0),
        ("aer", "0000:1b:00.0", None, 100.0),
        ("aer", "0000:1b:00.0", None, 100.000001),
        ("aer", "0000:c1:00.0", None, 200.0),
        ("iommu-fault", "0000:3b:00.0", None, 300.0),
        ("iommu-fault", "0000:41:00.0", None, 300.000001),
        ("iommu-fault", "0000:42:00.0", None, 300.000002),
        ("xid", "0000:1b:00.0", 79, 900.5),
    ]


def test_what_the_log_says_of_the_machine():
    facts = list(kernel_log.parse(fixture("kernel_log/dmesg")))
    assert (said(facts, "virtual"), said(facts, "hypervisor")) == ([True], ["KVM"])
    assert said(facts, "product") == ["Example Inc. GPU Server 9"]  # "DMI: Memory slots populated" is none


def test_only_the_last_boot_counts():
    facts = list(kernel_log.parse(fixture("kernel_log/kern.log_two_boots")))
    assert [(event.bdf, event.number, event.line.line) for event in of(LogEvent, facts)] == [("0000:2c:00.0", 43, 4)]
    assert said(facts, "kernel") == ["6.8.0-60-generic"]


@pytest.mark.parametrize(
    ("prefix", "time_s"),
    [
        ("", None),
        ("[   12.345678] ", 12.345678),
        ("<6>[   12.345678] ", 12.345678),
        ("[Thu Nov 19 10:00:00 2026] ", None),
        ("kern  :err   : 2026-11-19T10:00:00,502716+00:00 ", None),
        ("Nov 19 10:00:00 gpu01 kernel: ", None),
        ("2026-11-19T10:00:00.1+00:00 gpu01 kernel: [   12.345678] ", 12.345678),
        ("[   12.345678] gpu01 kernel: ", 12.345678),
    ],
)
def test_whatever_stands_before_the_message(prefix, time_s):
    text = f"{prefix}NVRM: Xid (0000:02:00): 31, Ch 00000010\n"
    assert kernel_log.sniff(text)
    (event,) = of(LogEvent, kernel_log.parse(text))
    assert (event.bdf, event.number, event.time_s) == ("0000:02:00.0", 31, time_s)


def test_a_flood_keeps_its_last_lines_and_what_else_was_said():
    flood = "[  1.000000] pci 0000:1b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer\n" * 1000
    events = of(LogEvent, kernel_log.parse(f"[  0.500000] NVRM: Xid (PCI:0000:2c:00): 79, x\n{flood}"))
    assert [event.line.line for event in events if event.kind == "xid"] == [1]
    aer = [event.line.line for event in events if event.kind == "aer"]
    assert aer == list(range(1002 - kernel_log.KEPT, 1002))


def test_a_log_with_nothing_in_it_was_still_read_and_one_denied_is_a_gap():
    assert list(kernel_log.parse("[    1.000000] usb 1-1: new device\n")) == [Host("dmesg", least_uptime_s=1.0)]
    facts = list(kernel_log.parse("dmesg: read kernel buffer failed: Operation not permitted\n"))
    assert len(of(Gap, facts)) == 1


# --- /proc and commands -------------------------------------------------------------------------------------------


def test_proc_cmdline():
    text = "gpu01:~ # cat /proc/cmdline\n" + sample(proc_cmdline)
    (fact,) = proc_cmdline.parse(text)
    assert (fact.cmdline, fact.line.line) == (sample(proc_cmdline).strip(), 2)
    assert [fact.cmdline for fact in proc_cmdline.parse("console=ttyS0 quiet\n")] == ["console=ttyS0 quiet"]


LSMOD = "Module                  Size  Used by\n" + "".join(f"mod{i:<20} 16384  {i} a,b\n" for i in range(20))


def test_modules_in_both_forms():
    (fact,) = kernel_modules.parse(f"$ lsmod\n{LSMOD}\n$ uptime\n mod99 1 2\n")
    assert fact.modules == {f"mod{i}" for i in range(20)}
    proc = "".join(f"mod{i} 16384 0 - Live 0x0000000000000000 (O)\n" for i in range(20))
    (fact,) = kernel_modules.parse(proc)
    assert fact.modules == {f"mod{i}" for i in range(20)}


def test_an_excerpt_of_modules_does_not_tell_what_is_missing():
    facts = list(kernel_modules.parse(sample(kernel_modules)))
    assert (len(of(Gap, facts)), of(Host, facts)) == (1, [])


def test_uname():
    (fact,) = uname.parse(sample(uname))
    assert (fact.hostname, fact.kernel, fact.arch) == ("gpu01", "6.8.0-60-generic", "x86_64")
    assert uname.sniff("5.15.0-112-generic\n")
    assert [fact.kernel for fact in uname.parse("5.15.0-112-generic\n")] == ["5.15.0-112-generic"]
    assert not uname.sniff("22.36.1010 is a firmware version\n")


@pytest.mark.parametrize(
    ("line", "driver", "is_open"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023",
            "535.129.03",
            False,
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build", "580.95.05", True),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86  Release Build", "570.86", True),
    ],
)
def test_nvidia_version(line, driver, is_open):
    (fact,) = nvidia_version.parse(f"{line}\nGCC version:  gcc version 12.3.0\n")
    assert (fact.driver, fact.open_driver) == (driver, is_open)


@pytest.mark.parametrize("probe", TEXT_PROBES, ids=lambda probe: probe.__name__.rpartition(".")[2])
def test_odd_texts_are_not_recognised_and_do_no_harm(probe):
    for text in ("", "a" * 2_000_000, "a=b " * 500_000, "NVRM: Xid (" * 100_000, "\x00\xff\n" * 1000):
        assert not probe.sniff(text) or probe is kernel_log
        assert not of(LogEvent, probe.parse(text))
    for end in range(0, len(sample(probe)), 7):
        list(probe.parse(sample(probe)[:end]))


# --- the machine's tree -------------------------------------------------------------------------------------------


def put(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def test_host_files_of_a_guest_in_a_container(tmp_path):
    put(tmp_path, "proc/sys/kernel/hostname", "gpu01")
    put(tmp_path, "proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
    put(tmp_path, "proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme hypervisor lm\n")
    put(tmp_path, "proc/1/cgroup", "12:cpuset:/kubepods/burstable/pod1\n")
    put(tmp_path, "sys/class/dmi/id/sys_vendor", "Example Inc.")
    put(tmp_path, "sys/class/dmi/id/product_name", "GPU Server 9")
    facts = list(host_files.read(open_source(str(tmp_path))))
    assert said(facts, "hostname") == ["gpu01"]
    assert said(facts, "boot_id") == ["11111111-2222-3333-4444-555555555555"]
    assert said(facts, "product") == ["Example Inc. GPU Server 9"]
    assert (said(facts, "virtual"), said(facts, "container")) == ([True], [True])


def test_host_files_of_bare_metal(tmp_path):
    put(tmp_path, "etc/hostname", "gpu02")
    put(tmp_path, "proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme lm\n")
    put(tmp_path, "proc/1/cgroup", "0::/init.scope\n")
    put(tmp_path, "sys/class/dmi/id/sys_vendor", "Example Inc.")
    facts = list(host_files.read(open_source(str(tmp_path))))
    assert (said(facts, "hostname"), said(facts, "virtual"), said(facts, "container")) == (["gpu02"], [False], [])


def test_host_files_of_arm_do_not_tell_a_guest(tmp_path):
    put(tmp_path, "proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\n")
    put(tmp_path, "sys/class/dmi/id/sys_vendor", "Example Inc.")
    assert said(host_files.read(open_source(str(tmp_path))), "virtual") == []


def test_iommu_type_is_that_of_the_gpus_groups(tmp_path):
    for bdf, vendor, class_, kind in (
        ("0000:1b:00.0", "0x10de", "0x030200", "DMA-FQ"),
        ("0000:1c:00.0", "0x10de", "0x068000", "identity"),  # an NVSwitch
        ("0000:1d:00.0", "0x15b3", "0x020700", "identity"),
    ):
        base = f"sys/bus/pci/devices/{bdf}"
        put(tmp_path, f"{base}/vendor", vendor)
        put(tmp_path, f"{base}/class", class_)
        put(tmp_path, f"{base}/iommu_group/type", kind)
    facts = sysfs_pci.read(open_source(str(tmp_path)))
    assert {fact.bdf: fact.iommu_type for fact in facts if isinstance(fact, PciFunction)} == {
        "0000:1b:00.0": "DMA-FQ",
        "0000:1c:00.0": None,
        "0000:1d:00.0": None,
    }
