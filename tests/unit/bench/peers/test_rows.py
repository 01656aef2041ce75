from bench.peers.rows import Measured, NotMeasured, section
from bench.peers.table import PEERS
from bench.relay.measure import FEW, EventWindow, RelayFigures, RequestWindow
from bench.report import Report, render


def _figures(role: str, micros: float) -> RelayFigures:
    window = RequestWindow({role: micros}, 100.0, micros / 1e6)
    return RelayFigures({FEW: [EventWindow({role: micros}, 1.0, {role: 0.0})]}, [window], [window])


def test_a_peer_has_four_rows_each_beside_nginx() -> None:
    peer = PEERS[0]
    found = section([Measured(peer, _figures("nginx", 10.0), _figures(peer.name, 30.0))])
    assert [row.compared for row in found.rows] == [3.0] * 4
    assert all(row.name.startswith(peer.title) for row in found.rows)


def test_a_peer_that_cannot_be_measured_is_a_line_and_no_failure() -> None:
    found = section([NotMeasured(PEERS[0], "it does\nnot answer")])
    report = Report("1 May 2027", "2 cores", quick=False, sections=(found,))
    assert report.complete
    assert f"{PEERS[0].title}: not measured: it does not answer" in render(report)


def test_every_peer_has_a_name_of_its_own_and_one_version() -> None:
    assert len({peer.name for peer in PEERS}) == len(PEERS)
    assert all(peer.requirement is None or peer.requirement.endswith(f"=={peer.version}") for peer in PEERS)
