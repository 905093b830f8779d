"""The nvidia-smi probes: every variant of format people post, and texts no tool writes."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import ModuleType

import pytest

from topocheck.facts import Fact, Gap, GpuState, Host, NvlinkGpu
from topocheck.probes import (
    smi_list,
    smi_nvlink,
    smi_p2p,
    smi_query,
    smi_query_xml,
    smi_table,
    smi_topo,
)

PROBES = (smi_topo, smi_p2p, smi_query, smi_query_xml, smi_list, smi_table, smi_nvlink)
FIXTURES = Path(__file__).parent.parent / "fixtures" / "probes"
GIB = 1 << 30


def text_of(probe: ModuleType, name: str) -> str:
    with (FIXTURES / probe.__name__.rpartition(".")[2] / name).open(newline="") as file:
        return file.read()


def parsed(probe: ModuleType, name: str) -> list[Fact]:
    return list(probe.parse(text_of(probe, name)))


def of_kind(facts: list[Fact], kind: type) -> list:
    return [fact for fact in facts if isinstance(fact, kind)]


@pytest.mark.parametrize("probe", PROBES)
def test_the_docstring_holds_a_sample_the_probe_reads(probe):
    assert probe.sniff(probe.__doc__)
    assert any(not isinstance(fact, Gap) for fact in probe.parse(probe.__doc__))


NAMES = {
    "nvidia-smi_topo_-m": smi_topo,
    "nvidia-smi_topo_-mp": smi_topo,
    "nvidia-smi-topo-m.txt": smi_topo,
    "nvidia_smi_topo.log": smi_topo,
    "nvidia-smi_topo_-p2p_r": smi_p2p,
    "nvidia-smi_topo_-p2p_rw": smi_p2p,
    "nvidia-smi": smi_table,
    "nvidia-smi.txt": smi_table,
    "nvidia-smi_-q": smi_query,
    "nvidia-smi_-q_-d_ECC": smi_query,
    "nvidia-smi-q.out": smi_query,
    "nvidia-smi_--query": smi_query,
    "nvidia-smi_-q_-x": smi_query_xml,
    "nvidia-smi_-x_-q": smi_query_xml,
    "nvidia-smi_-q.xml": smi_query_xml,
    "nvidia-smi_-L": smi_list,
    "nvidia-smi_-L.no-uuid": smi_list,
    "nvidia-smi_nvlink_-s_-i_6": smi_nvlink,
    "nvidia-smi_nvlink_--status": smi_nvlink,
    "nvlink.out": smi_nvlink,
    "nvidia-smi_--query-gpu_gpu_name_gpu_bus_id_--format_csv": None,
    "nvidia-smi_-l_5": None,
    "nvidia-settings_--query_all": None,
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items())
def test_a_file_name_calls_for_at_most_one_probe(name, expected):
    assert [probe for probe in PROBES if re.match(probe.NAME, name)] == ([expected] if expected else [])


SINGLE_OUTPUTS = sorted(path for path in FIXTURES.glob("*/*") if path.is_file() and path.parent.name != "pasted")


@pytest.mark.parametrize("path", SINGLE_OUTPUTS, ids=lambda path: "/".join(path.parts[-2:]))
def test_no_probe_takes_another_tools_output(path):
    text = path.read_text(errors="replace")
    takers = {probe.__name__.rpartition(".")[2] for probe in PROBES if probe.sniff(text)}
    more = {"smi_topo/pasted_with_others": {"smi_topo", "smi_p2p"}, "smi_table/kmd": {"smi_table"}}
    own = {path.parent.name} if path.parent.name.startswith("smi_") else set()
    errors = {"smi_table"} if "Unable to determine" in text else set()
    assert takers <= more.get("/".join(path.parts[-2:]), own) | errors


@pytest.mark.parametrize(
    "text",
    [
        "P2P Connectivity Matrix\n     D\\D     0     1\n     0\t     1     1\n     1\t     1     1\n",
        "Device: 0, NVIDIA A100, pciBusID: 1b, pciDeviceID: 0, pciDomainID:0\nDevice=0 CAN Access Peer Device=1\n",
        "resources:\n  limits:\n    nvidia.com/gpu: 8\n  GPU0: true\n",
        "GPU0 is hot, GPU1 OK\n",
        "NCCL INFO Channel 00/24 : 0 1 2 3\n",
    ],
)
def test_nothing_is_sniffed_in_other_texts(text):
    assert not [probe for probe in PROBES if probe.sniff(text)]


# --- -q and -q -x --------------------------------------------------------------------------------------------------


def test_query_states_every_field():
    host, first, second = parsed(smi_query, "nvidia-smi_-q")
    assert (host.driver, host.line.line) == ("570.86.15", 4)
    assert (first.index, first.bdf, first.uuid[-4:]) == (0, "0000:1b:00.0", "0001")
    assert (first.model, first.pci_id, first.minor) == ("NVIDIA H100 80GB HBM3", "10de:2330", 3)
    assert (first.gen, first.gen_max, first.gen_device_max, first.gen_host_max) == (1, 5, 5, 4)
    assert (first.width, first.width_max) == (8, 16)
    assert first.lines["width"].text == "Current                   : 8x"
    assert (first.memory_bytes, first.bar1_bytes) == (81559 << 20, 128 * GIB)
    assert (first.mig, first.vgpu, first.passthrough, first.confidential) == (False, False, False, False)
    assert (first.pstate, first.vbios) == ("P0", "96.00.00.00.01")
    assert (first.fabric_state, first.fabric_status, first.recovery_action) == ("Completed", "Success", "None")
    assert dict(first.fabric_health) == {
        "Summary": "Unhealthy",
        "Bandwidth": "Full",
        "Route Recovery In Progress": "False",
        "Route Unhealthy": "True",
    }
    assert first.lost is None  # a fan and a power limit that cannot be read are no lost GPU
    assert (second.index, second.bdf, second.mig) == (1, "0000:43:00.0", True)
    assert (second.memory_bytes, second.bar1_bytes) == (81559 << 20, 128 * GIB)  # the GPU's, not the MIG device's
    assert (second.fabric_state, second.fabric_status) == ("In Progress", "N/A")


def test_query_with_its_indent_lost():
    _, gpu = parsed(smi_query, "indent_lost")
    assert (gpu.width, gpu.width_max, gpu.gen, gpu.mig) == (8, 16, 5, False)
    assert (gpu.bar1_bytes, gpu.fabric_state, len(gpu.fabric_health)) == (128 * GIB, "Completed", 4)


@pytest.mark.parametrize("how", ["without indent", "through a pager", "with a line that a margin broke"])
def test_what_stands_in_one_section_only_is_known_without_its_indent(how):
    text = text_of(smi_query, "nvidia-smi_-q")
    lines = [line for line in text.splitlines() if line.strip()]
    pages = ["\n".join(lines[at : at + 9]) for at in range(0, len(lines), 9)]
    damaged = {
        "without indent": "\n".join(map(str.strip, lines)),
        "through a pager": "\n--More--\n".join(pages),
        "with a line that a margin broke": text.replace("    VBIOS", "    Some Name : a long\n value of it\n    VBIOS"),
    }[how]
    first, *_ = of_kind(smi_query.parse(damaged), GpuState)
    whole, *_ = of_kind(smi_query.parse(text), GpuState)
    names = ("pstate", "vbios", "bdf", "pci_id", "model", "uuid", "minor", "gen", "width")
    assert [getattr(first, name) for name in names] == [getattr(whole, name) for name in names]


def test_query_of_one_gpu_of_eight_knows_its_number_from_the_command_alone():
    _, gpu = parsed(smi_query, "one_of_eight")
    assert (gpu.index, gpu.vgpu, gpu.bdf) == (3, True, "0000:1b:00.0")
    _, gpu = smi_query.parse(text_of(smi_query, "one_of_eight").replace("-i 3", "-i GPU-0a"))
    assert gpu.index is None


def test_query_of_lost_gpus():
    facts = parsed(smi_query, "lost")
    gpus = {gpu.bdf: gpu for gpu in of_kind(facts, GpuState)}
    assert gpus["0000:9b:00.0"].lost == "Unknown Error"
    assert gpus["0000:9b:00.0"].lines["lost"].line == 1
    assert (gpus["0000:1b:00.0"].lost, gpus["0000:1b:00.0"].passthrough) == (None, True)
    assert (gpus["0000:43:00.0"].lost, gpus["0000:43:00.0"].uuid) == ("GPU is lost", None)
    assert (gpus["0000:52:00.0"].lost, gpus["0000:52:00.0"].recovery_action) == (None, "GPU requires reset")


def test_query_of_units_lists_no_gpu():
    assert [type(fact) for fact in parsed(smi_query, "units")] == [Host]


def test_query_xml_states_every_field():
    host, gpu = parsed(smi_query_xml, "nvidia-smi_-q_-x")
    assert (host.driver, host.line.line) == ("570.86.15", 5)
    assert (gpu.index, gpu.bdf, gpu.minor, gpu.pci_id) == (0, "0000:1b:00.0", 3, "10de:2330")
    assert (gpu.gen, gpu.gen_max, gpu.gen_device_max, gpu.gen_host_max) == (1, 5, 5, 4)
    assert (gpu.width, gpu.width_max, gpu.pstate) == (8, 16, "P8")
    assert (gpu.memory_bytes, gpu.bar1_bytes) == (81559 << 20, 128 * GIB)
    assert (gpu.mig, gpu.vgpu, gpu.passthrough, gpu.confidential) == (True, False, True, True)
    assert (gpu.fabric_state, gpu.fabric_status, gpu.recovery_action) == ("Completed", "Success", "Reset")
    assert gpu.fabric_health == (("Bandwidth", "Degraded"), ("Route Recovery In Progress", "False"))
    line = next(
        number
        for number, text in enumerate(text_of(smi_query_xml, "nvidia-smi_-q_-x").splitlines(), 1)
        if "current_link_width" in text
    )
    assert gpu.lines["width"] == ("nvidia-smi -q -x", line, "<current_link_width>8x</current_link_width>")


def test_query_xml_pasted_and_cut_yields_what_stands_before_the_cut():
    host, gpu, gap = parsed(smi_query_xml, "pasted_and_cut")
    assert (host.line.line, gpu.width, gpu.pstate) == (6, 8, None)
    assert "cut or damaged" in gap.reason


def test_query_xml_that_declares_entities_is_refused():
    (gap,) = parsed(smi_query_xml, "entities")
    assert "entities" in gap.reason


# --- -L and the plain table ----------------------------------------------------------------------------------------


def test_list_with_mig_devices_tells_the_mode_of_every_gpu():
    first, second = parsed(smi_list, "nvidia-smi_-L")
    assert (first.index, first.uuid, first.mig) == (0, "GPU-11111111-0000-0000-0000-000000000001", True)
    assert first.lines["mig"].line == 2
    assert (second.index, second.model, second.mig) == (1, "NVIDIA A100-SXM4-40GB", False)


def test_list_without_uuids_and_with_scrubbed_ones():
    first, second = parsed(smi_list, "nvidia-smi_-L.no-uuid")
    assert (first.model, first.uuid, first.mig, first.vgpu) == ("NVIDIA RTX A6000", None, None, None)
    assert (second.model, second.vgpu) == ("GRID A100-20C", True)
    assert [(gpu.model, gpu.uuid) for gpu in parsed(smi_list, "scrubbed")] == [("NVIDIA L40S", None)] * 2


def test_headings_of_nvlink_are_not_a_list():
    text = text_of(smi_nvlink, "nvidia-smi_nvlink_-s")
    assert not smi_list.sniff(text)
    assert not of_kind(list(smi_list.parse(text)), GpuState)


def test_table_of_a_new_driver():
    host, first, second, third = parsed(smi_table, "new")
    assert (host.driver, host.line.line) == ("550.54.15", 3)
    assert (first.index, first.bdf, first.model) == (0, "0000:17:00.0", "NVIDIA A100-PCIE-40GB")
    assert (first.pstate, first.mig, first.memory_bytes, first.lost) == ("P0", False, 40 * GIB, None)
    assert (second.pstate, second.mig, second.lost) == ("P8", True, None)  # only its fan is unreadable
    assert (third.bdf, third.pstate, third.mig, third.lost) == ("0000:ca:00.0", None, None, "ERR!")


def test_table_of_an_old_driver():
    host, first, second = parsed(smi_table, "old")
    assert host.driver == "384.111"
    assert (first.bdf, first.pstate, first.mig, first.memory_bytes) == ("0000:15:00.0", "P0", None, 16152 << 20)
    assert (second.pstate, second.lost) == ("P0", None)  # a power reading alone


def test_table_of_driver_610_below_a_gpu_without_handle():
    host, gpu, lost = parsed(smi_table, "kmd")
    assert (host.driver, gpu.model) == ("610.10.01", "NVIDIA B200")
    assert (lost.index, lost.bdf, lost.lost) == (1, "0000:34:00.0", "Unknown Error")


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure it is running.",
        "Failed to initialize NVML: Driver/library version mismatch",
        "No devices were found",
    ],
)
def test_driver_errors_are_the_hosts(text):
    assert smi_table.sniff(text)
    (host,) = smi_table.parse(f"$ nvidia-smi\n{text}\n")
    assert (host.driver_error, host.line.line) == (text, 2)


@pytest.mark.parametrize(
    ("text", "index", "bdf", "lost"),
    [
        ("GPU0000:9B:00.0: Unknown Error", None, "0000:9b:00.0", "Unknown Error"),
        ("GPU 0000:9B:00.0: GPU is lost.  Reboot the system to recover this GPU", None, "0000:9b:00.0", "GPU is lost."),
        ("GPU3: 0000:9B:00.0: Unknown Error", 3, "0000:9b:00.0", "Unknown Error"),
        ("GPU1: Unknown Error", 1, None, "Unknown Error"),
    ],
)
def test_gpus_without_a_device_handle_in_every_spelling(text, index, bdf, lost):
    (gpu,) = smi_table.parse(f"Unable to determine the device handle for {text}\n")
    assert (gpu.index, gpu.bdf) == (index, bdf)
    assert gpu.lost.startswith(lost)


# --- nvlink --------------------------------------------------------------------------------------------------------


def test_nvlink_status_in_every_wording():
    pcie, inactive, old, none, b200 = parsed(smi_nvlink, "nvidia-smi_nvlink_-s")
    assert [(port.link, port.active, port.rate_gb_per_s) for port in pcie.ports] == [
        (0, True, 26.562),
        (1, False, None),
    ]
    assert (pcie.index, pcie.model, pcie.ports[1].line.line) == (0, "NVIDIA H100 PCIe", 3)
    assert (inactive.all_inactive, inactive.unsupported, inactive.ports) == (True, False, ())
    assert (old.uuid, old.model, old.ports[0].rate_gb_per_s) == (None, "Tesla V100-SXM2-16GB", 25.781)
    assert (none.all_inactive, none.unsupported) == (False, True)
    assert b200.all_inactive


def test_nvlink_errors_remotes_and_capabilities():
    (errors,) = smi_nvlink.parse(text_of(smi_nvlink, "nvidia-smi_nvlink_-e"), command="nvidia-smi nvlink -e")
    assert errors.witness == "nvidia-smi nvlink -e"
    assert errors.ports[0].errors == (("Replay", 3), ("Recovery", 0), ("CRC", 65535))
    assert errors.ports[0].active is None
    (remotes,) = parsed(smi_nvlink, "nvidia-smi_nvlink_-R")
    assert remotes.witness == "nvidia-smi nvlink -R"
    assert [(port.link, port.remote_bdf) for port in remotes.ports] == [(0, "0000:d5:00.0"), (2, "000a:00:00.0")]
    name = "nvidia-smi_nvlink_-c_-i_1"
    (capable,) = smi_nvlink.parse(text_of(smi_nvlink, name), command=name.replace("_", " "))
    assert (capable.index, [port.supported for port in capable.ports]) == (1, [True, False])
    assert isinstance(parsed(smi_nvlink, name)[0], Gap)  # which GPU it is of is not in the text


def test_nvlink_says_one_thing_a_gpu_of_a_text_with_two_outputs():
    text = text_of(smi_nvlink, "nvidia-smi_nvlink_-e").replace("\t Link 1: CRC", "\t Link 1: 25 GB/s\n\t Link 1: CRC")
    (gpu,) = smi_nvlink.parse(text + text_of(smi_nvlink, "nvidia-smi_nvlink_-R"))
    assert isinstance(gpu, NvlinkGpu)
    assert [(port.link, port.active, port.remote_bdf) for port in gpu.ports] == [
        (0, None, "0000:d5:00.0"),
        (1, True, None),
        (2, None, "000a:00:00.0"),
    ]


# --- texts no tool writes ------------------------------------------------------------------------------------------

HOSTILE = {
    "one long line": "GPU0 X NV4 " * 200_000,
    "blanks": "GPU0" + " " * 2_000_000,
    "repeated rows": "GPU0 X NV4 SYS\n" * 20_000,
    "many names": "".join(f"GPU{i} X SYS 0-{i}0 N/A\n" for i in range(20_000)),
    "long lists": "".join(f"GPU{i} X SYS {','.join(str(cpu) for cpu in range(i, 900))}0 N/A\n" for i in range(200)),
    "headings": "GPU 00000000:1B:00.0\n    Product Name : x\n" * 20_000,
    "table rows": "|   0  NVIDIA A  Off | 00000000:15:00.0 Off | 0 |\n" * 20_000,
    "links": "Link 0: 25 GB/s\n" * 50_000,
    "elements": "<nvidia_smi_log>" + "<a>" * 100_000,
    "errors": "Failed to initialize NVML\n" * 20_000,
    "bytes": bytes(range(256)).decode("latin-1") * 2_000,
    "nothing": "",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_cost_neither_an_exception_nor_time(text):
    start = time.process_time()
    for probe in PROBES:
        probe.sniff(text)
        assert len(list(probe.parse(text))) <= 1100
    assert time.process_time() - start < 5


@pytest.mark.parametrize("probe", PROBES)
def test_a_text_cut_anywhere_never_raises(probe):
    for path in sorted((FIXTURES / probe.__name__.rpartition(".")[2]).iterdir()):
        text = path.read_text()
        for end in range(0, len(text), 41):
            list(probe.parse(text[:end]))
