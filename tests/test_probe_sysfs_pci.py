"""PCI functions from /sys and from their configuration space."""

import struct
import threading

import pytest
from pci_facts import functions

from topocheck.hardware.pci_ids import is_gpu, is_rdma_nic
from topocheck.probes import pci_config, sysfs_pci
from topocheck.sources.live import LiveSource
from topocheck.sources.tree import Tree

KEPT = ("max_payload_bytes", "payload_bytes", "read_request_bytes", "relaxed_ordering", "port_type")


def config_space(*, kind=0, port_type=0, class_id=0x0302, ids=(0x10DE, 0x2330), lnk_cap=0x105, lnk_sta=0x105, acs=0):
    """4096 bytes as PCIe lays them out: header, PCI Express capability at 0x60, AER at 0x100, ACS at 0x140, serial
    number at 0x150."""
    config = bytearray(4096)
    struct.pack_into("<HHHH", config, 0x00, *ids, 0x0006, 0x0010)  # memory and bus master on; has capabilities
    struct.pack_into("<BBH", config, 0x08, 0xA1, 0, class_id)
    config[0x0E], config[0x34] = kind, 0x60
    if kind == 1:
        config[0x18:0x1B] = bytes((0x15, 0x16, 0x1A))
    else:
        struct.pack_into("<HH", config, 0x2C, 0x10DE, 0x16C1)
    struct.pack_into("<BBH", config, 0x60, 0x10, 0, 0x2 | port_type << 4)
    struct.pack_into("<IH", config, 0x64, 0x1, 0x5030)  # can 256 bytes; uses 256, reads of 4096, RlxdOrd+
    struct.pack_into("<I", config, 0x6C, lnk_cap)
    struct.pack_into("<H", config, 0x72, lnk_sta)
    struct.pack_into("<H", config, 0x90, 0x4)  # LnkCtl2: 16 GT/s
    struct.pack_into("<IIIIII", config, 0x100, 0x14020001, 1 << 14, 0, 0, 1 << 6, 0)  # CmpltTO+, BadTLP+
    struct.pack_into("<IHH", config, 0x140, 0x1501000D, 0x005F, acs)
    struct.pack_into("<III", config, 0x150, 0x00010003, 0x55667788, 0x11223344)
    return bytes(config)


def test_config_space_of_an_endpoint():
    values = pci_config.decode(config_space(lnk_sta=0x84))  # x8 at speed code 4
    assert (values["vendor_id"], values["device_id"], values["class_id"]) == ("10de", "2330", "0302")
    assert (values["speed_gts"], values["width"], values["max_speed_gts"], values["max_width"]) == (16.0, 8, 32.0, 16)
    assert values["target_speed_gts"] == 16.0
    assert [values[name] for name in KEPT] == [256, 256, 4096, True, "endpoint"]
    assert "CmpltTO+" in dict(values["aer"])["UESta"] and "BadTLP+" in dict(values["aer"])["CESta"]
    assert values["serial"] == "11-22-33-44-55-66-77-88"
    assert values["subsystem"] == "10de:16c1"


def test_config_space_of_a_downstream_port():
    values = pci_config.decode(config_space(kind=1, port_type=6, class_id=0x0604, acs=0x1D))
    assert (values["port_type"], values["is_bridge"]) == ("downstream", True)
    assert values["secondary_bus"] == 0x16
    assert values["acs_ctl"] == {"SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"}


def test_config_space_dead_short_or_of_a_virtual_function():
    assert pci_config.decode(b"\xff" * 4096) == {"dead": True}
    assert pci_config.decode(b"\x00" * 40) == {}
    short = pci_config.decode(config_space()[:64])
    assert short["access_denied"] and "width" not in short
    virtual = pci_config.decode(config_space(ids=(0xFFFF, 0xFFFF), lnk_sta=0))
    assert virtual["vendor_id"] is None and "dead" not in virtual
    assert (virtual["speed_gts"], virtual["width"], virtual["link_unknown"]) == (None, 0, True)
    loop = bytearray(config_space())
    loop[0x61], loop[0x103] = 0x60, 0x10  # both lists point to themselves
    assert pci_config.decode(bytes(loop))["width"] == 16


def make_function(root, path, files, config=None):
    """A folder of the device tree with its link; "driver" and "physfn" are links."""
    folder = root / "sys/devices" / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        if name == "driver":
            (folder / name).symlink_to(f"/sys/bus/pci/drivers/{value}")
        elif name == "physfn":
            (folder / name).symlink_to(f"../{value}")
        else:
            (folder / name).write_text(f"{value}\n")
    if config is not None:
        (folder / "config").write_bytes(config)
    links = root / "sys/bus/pci/devices"
    links.mkdir(parents=True, exist_ok=True)
    (links / folder.name).symlink_to(f"../../../devices/{path}")


def link_files(speed, width, max_speed="32.0 GT/s PCIe", max_width=16):
    return {
        "current_link_speed": speed,
        "current_link_width": width,
        "max_link_speed": max_speed,
        "max_link_width": max_width,
    }


PORT = {"class": "0x060400", "vendor": "0x8086", "device": "0x352a", "numa_node": 0}
GPU = {"class": "0x030200", "vendor": "0x10de", "device": "0x2330", "numa_node": 0, "driver": "nvidia"}
NIC = {"class": "0x020700", "vendor": "0x15b3", "device": "0x1021", "numa_node": -1}
NO_BAR = "0x0000000000000000 0x0000000000000000 0x0000000000000000"
BAR0 = "0x0000210042000000 0x0000210042ffffff 0x000000000014220c"
BAR1 = "0x0000210000000000 0x0000211fffffffff 0x000000000014220c"


@pytest.fixture
def tree(tmp_path):
    port, nic_port = "pci0000:15/0000:15:01.0", "pci0000:15/0000:15:03.0"
    config = config_space(kind=1, port_type=4, class_id=0x0604, ids=(0x8086, 0x352A), acs=0x1)
    make_function(tmp_path, port, PORT | link_files("32.0 GT/s PCIe", 16), config)
    gpu = GPU | link_files("16.0 GT/s PCIe", 8) | {"resource": "\n".join((BAR0, NO_BAR, BAR1, NO_BAR, NO_BAR, NO_BAR))}
    gpu |= {"aer_dev_fatal": "Undefined 0\nDLP 2\nTOTAL_ERR_FATAL 2"}
    make_function(tmp_path, f"{port}/0000:16:00.0", gpu, config_space(lnk_sta=0x84))
    make_function(tmp_path, nic_port, PORT | link_files("32.0 GT/s PCIe", 16))
    nic = NIC | link_files("32.0 GT/s PCIe", 16) | {"resource": "\n".join([NO_BAR] * 6)}
    make_function(tmp_path, f"{nic_port}/0000:17:00.0", nic)
    virtual = link_files("Unknown", 0, "Unknown", 255) | {"physfn": "0000:17:00.0", "resource": "\n".join([NO_BAR] * 6)}
    uevent = "DRIVER=mlx5_core\nPCI_CLASS=20700\nPCI_ID=15B3:101E\nPCI_SUBSYS_ID=15B3:0041\nPCI_SLOT_NAME=0000:17:00.1"
    make_function(tmp_path, f"{nic_port}/0000:17:00.1", {"uevent": uevent} | virtual)
    return functions(sysfs_pci.read(Tree(str(tmp_path))))


def test_sysfs_gives_the_tree(tree):
    assert {bdf: (fact.parent, fact.root) for bdf, fact in tree.items()} == {
        "0000:15:01.0": ("", "pci0000:15"),
        "0000:15:03.0": ("", "pci0000:15"),
        "0000:16:00.0": ("0000:15:01.0", "pci0000:15"),
        "0000:17:00.0": ("0000:15:03.0", "pci0000:15"),
        "0000:17:00.1": ("0000:15:03.0", "pci0000:15"),
    }


def test_sysfs_gpu(tree):
    gpu = tree["0000:16:00.0"]
    assert is_gpu(gpu)
    assert (gpu.speed_gts, gpu.width, gpu.max_speed_gts, gpu.max_width) == (16.0, 8, 32.0, 16)
    assert (gpu.driver, gpu.driver_shown, gpu.numa_node) == ("nvidia", True, 0)
    assert (gpu.bar1_bytes, gpu.bars_unassigned) == (128 << 30, False)  # BAR0 has 64 bits, so BAR1 is resource 2
    assert [getattr(gpu, name) for name in KEPT] == [256, 256, 4096, True, "endpoint"]
    assert ("aer_dev_fatal", "2") in gpu.aer
    config = "/sys/bus/pci/devices/0000:16:00.0/config"
    assert gpu.lines["LnkSta"] == (config, None, "LnkSta: Speed 16GT/s, Width x8")
    assert gpu.lines["DevCtl"] == (config, None, "DevCtl: MaxPayload 256 bytes, MaxReadReq 4096 bytes, RlxdOrd+")


def test_sysfs_without_root_or_config_still_has_the_link(tree):
    nic, port = tree["0000:17:00.0"], tree["0000:15:03.0"]
    assert (nic.speed_gts, nic.width, nic.port_type, nic.payload_bytes) == (32.0, 16, None, None)
    assert nic.lines["LnkSta"].text == "current_link_speed 32.0 GT/s PCIe, current_link_width 16"
    assert (nic.numa_node, nic.numa_unknown, nic.driver, nic.driver_shown) == (None, True, None, True)
    assert nic.bars_unassigned
    assert (port.is_bridge, port.bars_unassigned, port.acs_ctl) == (True, False, None)
    assert tree["0000:15:01.0"].acs_ctl == {"SrcValid"}


def test_ports_without_config_are_told_by_their_place(tmp_path):
    path = "pci0000:15"
    for bdf in ("0000:15:01.0", "0000:16:00.0", "0000:17:04.0"):
        path = f"{path}/{bdf}"
        make_function(tmp_path, path, PORT | link_files("32.0 GT/s PCIe", 16), config_space(kind=1, port_type=4)[:64])
    make_function(tmp_path, f"{path}/0000:18:00.0", GPU | link_files("32.0 GT/s PCIe", 16), config_space()[:64])
    make_function(tmp_path, "pci0000:15/0000:15:1e.0", PORT)  # a conventional bridge: no link files
    by_bdf = functions(sysfs_pci.read(Tree(str(tmp_path))))
    assert {bdf: fact.port_type for bdf, fact in by_bdf.items()} == {
        "0000:15:01.0": "root",
        "0000:15:1e.0": None,
        "0000:16:00.0": "upstream",
        "0000:17:04.0": "downstream",
        "0000:18:00.0": None,
    }
    assert by_bdf["0000:18:00.0"].access_denied


def test_config_space_is_read_on_the_way_to_devices_only(tmp_path):
    make_function(tmp_path, "pci0000:00/0000:00:01.0", PORT, config_space(kind=1, port_type=4, class_id=0x0604))
    make_function(tmp_path, "pci0000:00/0000:00:01.0/0000:01:00.0", GPU, config_space())
    make_function(tmp_path, "pci0000:00/0000:00:02.0", PORT, config_space(kind=1, port_type=4, class_id=0x0604))
    storage = {"class": "0x010802", "vendor": "0x144d", "device": "0xa80a"}
    make_function(tmp_path, "pci0000:00/0000:00:02.0/0000:02:00.0", storage, config_space())
    source = Tree(str(tmp_path))
    read_bytes, read = source.read_bytes, []
    source.read_bytes = lambda path: read.append(path) or read_bytes(path)
    list(sysfs_pci.read(source))
    configs = sorted(path.split("/")[-2] for path in read if path.endswith("/config"))
    assert configs == ["0000:00:01.0", "0000:01:00.0"]


def test_sysfs_virtual_function(tree):
    virtual = tree["0000:17:00.1"]
    assert virtual.vf_of == "0000:17:00.0"
    assert (virtual.width, virtual.max_width, virtual.link_unknown) == (0, None, True)
    assert (virtual.device_id, virtual.subsystem, virtual.driver) == ("101e", "15b3:0041", "mlx5_core")
    assert not virtual.bars_unassigned
    assert is_rdma_nic(virtual)


def test_no_sysfs_no_facts(tmp_path):
    assert list(sysfs_pci.read(Tree(str(tmp_path)))) == []


def test_a_link_that_sleeps_is_read_several_times_and_the_fastest_counts(tmp_path):
    """An L40S between two pulses of work: 2.5 GT/s, 16 GT/s for half a second, 2.5 GT/s again."""
    port, gpu = "pci0000:15/0000:15:01.0", "pci0000:15/0000:15:01.0/0000:16:00.0"
    link = {"current_link_speed": "2.5 GT/s PCIe", "current_link_width": 16, "max_link_width": 16}
    link["max_link_speed"] = "16.0 GT/s PCIe"
    make_function(tmp_path, port, {**link, "uevent": "PCI_CLASS=60400\nPCI_ID=8086:352A"})
    make_function(tmp_path, gpu, {**link, "uevent": "PCI_CLASS=30200\nPCI_ID=10DE:26B9"})
    speeds = [tmp_path / "sys/devices" / path / "current_link_speed" for path in (port, gpu)]

    def work():
        for speed in ("16.0", "2.5"):
            threading.Event().wait(0.3)
            for file in speeds:
                file.write_text(f"{speed} GT/s PCIe\n")
            threading.Event().wait(0.2)

    worker = threading.Thread(target=work)
    worker.start()
    found = functions(sysfs_pci.read(LiveSource(root=str(tmp_path))))
    worker.join()
    assert [f.speed_gts for f in found.values()] == [16.0, 16.0]
    assert "16.0 GT/s" in found["0000:16:00.0"].lines["LnkSta"].text
