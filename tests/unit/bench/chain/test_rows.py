from bench.chain import rows
from bench.chain.measure import ChainFigures, Latency, Pair, Run, middle
from bench.clients.messages import LoadResult


def run(tokens: int, first_token_s: float = 0.002, **cpu_s: float) -> Run:
    result = LoadResult(requests=10, tokens=tokens, wall_s=1.0, first_token_s=[first_token_s], request_s=[0.1])
    return Run(result, cpu_s)


def pair(direct: int, conch: int) -> Pair:
    return Pair(
        run(direct, tritonserver=0.01, stub=0.02), run(conch, 0.005, tritonserver=0.01, stub=0.02, gateway=0.03)
    )


def test_the_pair_with_the_median_ratio_speaks_for_all() -> None:
    pairs = [pair(1000, 700), pair(2000, 1800), pair(500, 400)]
    assert middle(pairs) is pairs[2]


def test_goals_stand_at_16_and_64_streams_and_at_the_first_token() -> None:
    pairs = [pair(1000, 960)]
    loads = dict.fromkeys((1, 16, 64), pairs)
    figures = ChainFigures(Latency(0.002, 0.1), Latency(0.007, 0.12), loads, loads)
    speed, tokens, requests = rows.sections(figures)
    assert {row.name: row.passed for row in speed.rows if row.goal} == {
        "1 stream: time to first token": False,
        "16 streams: tokens per second": True,
        "64 streams: tokens per second": True,
    }
    assert [row.name for row in tokens.rows if row.passed is not None] == ["16 streams: llm-worker"]
    judged = [row.name for row in requests.rows if row.passed is not None]
    assert judged == ["16 streams: llm-worker", "16 streams: together"]
    gateway = next(row for row in tokens.rows if row.name == "64 streams: gateway")
    assert (gateway.conch, gateway.reference) == (31.25, None)
    together = next(row for row in requests.rows if row.name == "1 stream: together")
    assert (together.conch, together.reference) == (6000.0, 3000.0)
