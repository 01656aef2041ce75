import json
from pathlib import Path

from cluster.local.layout import Layout
from cluster.local.node import remember_kernel


def test_the_kernel_is_remembered_once_with_its_forwarding(tmp_path: Path) -> None:
    layout, forwarding = Layout(tmp_path), Path("/proc/sys/net/ipv4/ip_forward")
    remember_kernel(layout)
    remembered = json.loads((tmp_path / "kernel.json").read_text())
    assert remembered["net.ipv4.ip_forward"] == forwarding.read_text()
    assert remembered["vm.overcommit_memory"] == Path("/proc/sys/vm/overcommit_memory").read_text()
    (tmp_path / "kernel.json").write_text("{}")
    remember_kernel(layout)
    assert (tmp_path / "kernel.json").read_text() == "{}"
