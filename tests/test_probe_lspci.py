"""lspci in all its forms: what the -vv lines say, and the same text damaged on its way."""

import re

import pytest
from pci_facts import LSPCI_VV, fixture, functions, gaps, listing, without_lines

from topocheck.facts import Gap, PciFunction, PciListing
from topocheck.hardware.pci_ids import is_gpu, is_nvswitch, is_rdma_nic, is_virtual_function_name
from topocheck.probes import lspci


def lspci_of(name):
    return list(lspci.parse(fixture(name)))


# --- lspci -vv ---


def test_gpu_link_and_registers():
    gpu = functions(lspci_of(LSPCI_VV))["0000:4d:00.0"]
    assert (gpu.speed_gts, gpu.width, gpu.max_speed_gts, gpu.max_width) == (16.0, 8, 32.0, 16)
    assert (gpu.vendor_id, gpu.device_id, gpu.class_id, gpu.subsystem) == ("10de", "2330", "0302", "10de:16c1")
    assert gpu.name == "NVIDIA Corporation GH100 [H100 SXM5 80GB]"
    assert (gpu.class_id, gpu.dead, gpu.numa_node, gpu.port_type) == ("0302", False, 0, "endpoint")
    assert (gpu.max_payload_bytes, gpu.payload_bytes, gpu.read_request_bytes) == (256, 256, 4096)
    assert (gpu.relaxed_ordering, gpu.ats_enabled, gpu.driver, gpu.driver_shown) == (True, True, "nvidia", True)
    assert gpu.aer[1] == ("CESta", "RxErr- BadTLP+ BadDLLP- Rollover- Timeout- AdvNonFatalErr-")
    assert gpu.target_speed_gts is None  # this GPU prints no LnkCtl2


def test_bar1_is_region_2_where_the_first_bar_has_64_bits():
    by_bdf = functions(lspci_of(LSPCI_VV))
    assert by_bdf["0000:4d:00.0"].bar1_bytes == 128 << 30
    assert "size=128G" in by_bdf["0000:4d:00.0"].lines["Region 1"].text
    assert by_bdf["0000:6b:00.0"].bar1_bytes == 128 << 30
    assert by_bdf["0000:4e:00.0"].bar1_bytes is None  # no GPU


def test_ports_buses_acs_and_target_speed():
    by_bdf = functions(lspci_of(LSPCI_VV))
    ports = [by_bdf[bdf].port_type for bdf in ("0000:4a:02.0", "0000:4b:00.0", "0000:4c:00.0")]
    assert ports == ["root", "upstream", "downstream"]
    port = by_bdf["0000:4c:00.0"]
    assert (port.is_bridge, port.secondary_bus) == (True, 0x4D)
    assert port.target_speed_gts == 16.0
    assert port.acs_ctl == {"SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"}
    assert by_bdf["0000:4a:02.0"].acs_ctl == {"SrcValid"}
    assert by_bdf["0000:4c:01.0"].acs_ctl is None  # no ACS capability shown
    assert by_bdf["0000:4b:00.0"].serial == "00-80-ee-ee-00-00-00-77"


def test_no_link_is_told_from_an_unknown_one():
    by_bdf = functions(lspci_of(LSPCI_VV))
    empty_slot, vf, rciep = by_bdf["0000:4c:02.0"], by_bdf["0000:4e:00.1"], by_bdf["0000:6a:00.0"]
    assert (empty_slot.width, empty_slot.link_unknown) == (0, False)
    assert (vf.speed_gts, vf.width, vf.link_unknown) == (None, 0, True)
    assert (rciep.port_type, rciep.max_speed_gts, rciep.max_width, rciep.link_unknown) == ("rciep", None, None, True)


def test_virtual_functions_are_placed_by_offset_and_stride():
    by_bdf = functions(lspci_of(LSPCI_VV))
    assert [by_bdf[f"0000:4e:00.{n}"].vf_of for n in (0, 1, 2)] == [None, "0000:4e:00.0", "0000:4e:00.0"]


def test_dead_device_and_bars_without_address():
    by_bdf = functions(lspci_of(LSPCI_VV))
    assert {bdf for bdf, fact in by_bdf.items() if fact.dead} == {"0000:4f:00.0"}
    # [virtual] regions of VFs and the VF regions of an SR-IOV capability are no fault.
    assert {bdf for bdf, fact in by_bdf.items() if fact.bars_unassigned} == {"0000:6b:00.0"}


def test_missing_driver_is_stated_only_where_its_line_would_stand():
    by_bdf = functions(lspci_of(LSPCI_VV))
    unbound, last = by_bdf["0000:6b:00.0"], by_bdf["0000:7f:00.0"]
    assert (unbound.driver, unbound.driver_shown) == (None, True)
    assert not last.driver_shown  # the text may end too early
    assert not any(fact.driver_shown for fact in functions(lspci_of("lspci/nn-domains.txt")).values())


def test_evidence_names_the_line_that_shows_it():
    text = fixture(LSPCI_VV).split("\n")
    for fact in functions(lspci_of(LSPCI_VV)).values():
        for key, evidence in fact.lines.items():
            assert text[evidence.line - 1].strip() == evidence.text, key
    gpu = functions(lspci_of(LSPCI_VV))["0000:4d:00.0"]
    assert gpu.lines["LnkSta"].text.startswith("LnkSta:\tSpeed 16GT/s")
    assert gpu.lines["DevCtl"].text == "MaxPayload 256 bytes, MaxReadReq 4096 bytes"
    assert gpu.lines["RlxdOrd"].text.startswith("RlxdOrd+")


def test_listing_is_whole_with_host_bridges_and_has_links():
    assert listing(lspci_of(LSPCI_VV)) == PciListing("lspci -vv", whole=True)
    assert listing(lspci_of("lspci/nn-domains.txt")) == PciListing("lspci -vv", whole=False)
    assert listing(lspci_of("lspci/v-not-root.txt")) == PciListing("lspci -vv", whole=True)


# --- the same text, damaged in ways that lose nothing ---


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\t", "        "),
        lambda text: re.sub(r"(?m)^\t", "", text),
        lambda text: re.sub(r"(?m)^\s+", "", text),
        lambda text: re.sub(r"(?m)^", "> ", text),
        lambda text: re.sub(r"(?m)^", "    ", text),
        lambda text: f"```\nroot@node:~# lspci -nnvv\n{text}```\n",
        lambda text: text.replace(" (downgraded)", "").replace("GT/s, Width", "GT/s (ok), Width"),
        lambda text: text.replace("\t", "\u00a0\u00a0"),
        lambda text: re.sub(r"(?m)^(\S)", r"0000:\1", text),
        lambda text: re.sub(r"(?m)^(\S)", r"00000000:\1", text),
        lambda text: f"[   12.3] pci 0000:00:1f.0: quirk\n{text}\n$ lscpu\nFlags:   fpu vme\nNUMA node(s):  2\n",
    ],
    ids=[
        "crlf",
        "blanks",
        "one-level-lost",
        "all-lost",
        "quoted",
        "indented",
        "fence",
        "words",
        "nbsp",
        "domain",
        "nvml-domain",
        "neighbours",
    ],
)
def test_damage_that_loses_nothing_changes_nothing(damage):
    text = fixture(LSPCI_VV)
    damaged = list(lspci.parse(damage(text)))
    assert without_lines(damaged) == without_lines(lspci.parse(text))
    assert lspci.sniff(damage(text))


def test_old_pciutils_numeric_ids_and_hex_dump():
    by_bdf = functions(lspci_of("lspci/vvxxxx-pciutils-3.5-no-names.txt"))
    assert set(by_bdf) == {"0000:82:00.0", "0000:84:00.0"}
    switch, nic = by_bdf["0000:82:00.0"], by_bdf["0000:84:00.0"]
    assert (switch.class_id, switch.vendor_id, switch.device_id, switch.name) == ("0604", "10b5", "8747", None)
    assert (switch.speed_gts, switch.width, switch.max_width, switch.payload_bytes) == (5.0, 4, 16, 256)
    assert (nic.class_id, nic.vendor_id, nic.device_id, nic.subsystem) == ("0207", "15b3", "1017", "15b3:0007")
    assert is_rdma_nic(nic)


def test_mail_with_quotes_and_wrapped_lines():
    (nic,) = functions(lspci_of("lspci/mail-quoted-wrapped.txt")).values()
    assert nic.name == "Mellanox Technologies MT27710 Family [ConnectX-4 Lx]"
    assert (nic.speed_gts, nic.width, nic.numa_node, nic.driver) == (8.0, 4, 1, "mlx5_core")
    assert nic.acs_ctl == {"SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"}


def test_v_form_and_not_root():
    by_bdf = functions(lspci_of("lspci/v-not-root.txt"))
    gpu, port = by_bdf["0000:01:00.0"], by_bdf["0000:00:01.0"]
    assert (gpu.access_denied, gpu.bars_unassigned, gpu.width, gpu.max_width) == (True, True, None, None)
    assert (gpu.class_id, gpu.vendor_id, gpu.device_id, gpu.numa_node) == ("0300", "10de", None, 0)
    assert (gpu.driver, gpu.driver_shown) == (None, True)
    assert gpu.lines["NUMA node"].text.startswith("Flags: fast devsel")
    assert by_bdf["0000:02:00.0"].bars_unassigned  # <ignored>: the kernel has not taken the address
    assert (port.port_type, port.secondary_bus, port.numa_node) == ("root", 1, 0)


def test_grep_output():
    facts = lspci_of("lspci/grep-with-prompts.txt")
    by_bdf = functions(facts)
    assert {bdf: (fact.width, fact.max_width) for bdf, fact in by_bdf.items()} == {
        "0000:5d:00.0": (8, 16),
        "0000:5e:00.0": (16, None),
    }
    assert gaps(facts) == ["2 lines (ACSCtl) without the device line they belong to"]
    acs_only = list(lspci.parse("\t\tACSCtl:\tSrcValid- ReqRedir+\n" * 3))
    assert [type(fact) for fact in acs_only] == [Gap]
    assert acs_only[0].reason.startswith("3 lines (ACSCtl)")


@pytest.mark.parametrize("options", ["-s 5d:00.0 -vv", "-vvvs 5d:00.0", "-vv -s0000:5d:00.0", "-D -s 0000:5d:00.0"])
def test_address_from_the_command_line(options):
    facts = functions(lspci.parse(f"# lspci {options} | grep Sta:\n\t\tLnkSta:\tSpeed 32GT/s, Width x8\n"))
    assert {bdf: fact.width for bdf, fact in facts.items()} == {"0000:5d:00.0": 8}


def test_grep_that_keeps_links_of_other_devices():
    text = (
        "19:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"
        "\t\tLnkSta:\tSpeed 32GT/s, Width x16\n"
        "\t\tLnkSta:\tSpeed 16GT/s, Width x4\n"  # of a device whose own line the grep dropped
    )
    facts = list(lspci.parse(text))
    assert functions(facts)["0000:19:00.0"].width == 16
    assert gaps(facts) == ["1 lines (LnkSta) without the device line they belong to"]


def test_device_lines_alone():
    by_bdf = functions(lspci_of("lspci/nn-domains.txt"))
    assert list(by_bdf) == ["0001:00:00.0", "0002:00:00.0", "10000:e1:00.0", "0101:00:00.0", "0000:17:00.0"]
    gpu, switch, _, vf, nic = by_bdf.values()
    assert is_gpu(gpu) and gpu.name == "NVIDIA Corporation GA100 [A100 SXM4 80GB]"
    assert is_nvswitch(switch) and not is_gpu(switch)
    assert is_rdma_nic(vf) and is_virtual_function_name(vf.name) and vf.vf_of is None
    assert not is_rdma_nic(nic)


def test_elided_lines_make_no_missing_driver():
    shown = "01:00.0 3D controller: NVIDIA Corporation GA102GL [A40]\n\tKernel driver in use: nvidia\n"
    cut = "02:00.0 3D controller: NVIDIA Corporation GA102GL [A40]\n\tNUMA node: 0\n[...]\n"
    facts = functions(lspci.parse(shown + cut + shown.replace("01:", "03:")))
    assert not facts["0000:02:00.0"].driver_shown
    assert functions(lspci.parse(shown + cut.replace("[...]\n", "") + shown))["0000:02:00.0"].driver_shown


def test_device_lines_above_a_listing_with_drivers_state_no_missing_driver():
    line = "01:00.0 3D controller: NVIDIA Corporation GA102GL [A40]\n"
    text = f"$ lspci | grep NVIDIA\n{line}$ lspci -k -s 01:00.0\n{line}\tKernel driver in use: nvidia\n"
    facts = [fact for fact in lspci.parse(text) if isinstance(fact, PciFunction)]
    assert [(fact.driver, fact.driver_shown) for fact in facts] == [(None, False), ("nvidia", True)]


def test_host_bridge_or_bridge_on_bus_0_makes_a_listing_whole():
    gpu = "01:00.0 3D controller: NVIDIA Corporation GA102GL [A40]\n"
    host = "80:00.0 Host bridge: Intel Corporation Device 3450\n"
    port = "0003:00:01.0 PCI bridge: NVIDIA Corporation Device 22b2\n"
    switch = "02:01.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch\n"
    whole = [listing(list(lspci.parse(text))).whole for text in (gpu, gpu + host, gpu + port, gpu + switch)]
    assert whole == [False, True, True, False]


def test_first_line_of_a_kind_counts_for_payload_too():
    text = "01:00.0 3D controller: NVIDIA Corporation GA102GL [A40]\n" + "".join(
        f"\t\t\tMaxPayload {payload} bytes, MaxReadReq 512 bytes\n" for payload in (256, 128)
    )
    assert functions(lspci.parse(text))["0000:01:00.0"].payload_bytes == 256


def test_registers_full_of_ones_are_no_width():
    text = "01:00.0 3D controller: NVIDIA Corporation GA102GL [A40]\n\t\tLnkSta:\tSpeed unknown, Width x63\n"
    assert functions(lspci.parse(text))["0000:01:00.0"].width is None


def test_numa_node_minus_one_is_unknown_and_no_number():
    text = "01:00.0 3D controller: NVIDIA Corporation GA102GL [A40]\n\tNUMA node: -1\n"
    gpu = functions(lspci.parse(text))["0000:01:00.0"]
    assert (gpu.numa_node, gpu.numa_unknown) == (None, True)
