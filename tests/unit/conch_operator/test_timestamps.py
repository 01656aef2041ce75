from conch_operator.timestamps import micro_timestamp, timestamp


def test_a_moment_is_written_as_kubernetes_reads_it() -> None:
    assert timestamp(lambda: 1_769_860_800.9) == "2026-01-31T12:00:00Z"
    assert micro_timestamp(lambda: 1_769_860_800.000001) == "2026-01-31T12:00:00.000001Z"
    assert micro_timestamp(lambda: 1_769_860_800.0) == "2026-01-31T12:00:00.000000Z"
