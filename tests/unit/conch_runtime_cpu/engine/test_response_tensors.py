import numpy as np

from conch_runtime_cpu.engine.response_tensors import PartialResponse, pack
from conch_runtime_cpu.engine.scheduler import FinishedRequest, FinishReason
from conch_runtime_cpu.sampling.logprobs import LogprobRows
from conch_runtime_cpu.sampling.sampler import TokenLogprobs


def test_tokens_alone_make_one_tensor() -> None:
    ((name, value),) = pack(PartialResponse([1, 2]))
    assert name == "token_ids"
    assert value.dtype == np.int32
    assert value.tolist() == [1, 2]


def test_the_last_message_says_how_it_ended_even_without_tokens() -> None:
    tensors = dict(pack(PartialResponse(finish=FinishedRequest(FinishReason.STOP, 9))))
    assert tensors["token_ids"].shape == (0,)
    assert tensors["finish_reason"].tolist() == [b"stop"]
    assert tensors["stop_token_id"].tolist() == [9]


def test_alternatives_are_a_row_for_each_token() -> None:
    tensors = dict(
        pack(PartialResponse([1, 2], [TokenLogprobs(-1, [1, 3], [-1, -2]), TokenLogprobs(-2, [4, 5], [-0.5, -1])]))
    )
    assert tensors["logprobs"].tolist() == [-1, -2]
    assert tensors["top_ids"].tolist() == [[1, 3], [4, 5]]
    assert tensors["top_logprobs"].dtype == np.float32


def test_without_alternatives_only_the_chosen_are_sent() -> None:
    assert [name for name, _ in pack(PartialResponse([1], [TokenLogprobs(-1, [], [])]))] == ["token_ids", "logprobs"]


def test_the_first_id_of_a_prompt_has_no_log_probability() -> None:
    rows = LogprobRows(np.array([-1], np.float32), np.array([[7, 8]]), np.array([[-1, -2]], np.float32), np.array([3]))
    tensors = dict(pack(PartialResponse([1], prompt=rows)))
    assert np.isnan(tensors["prompt_logprobs"][0])
    assert tensors["prompt_logprobs"].tolist()[1:] == [-1]
    assert tensors["prompt_top_ids"].tolist() == [[-1, -1], [7, 8]]
    assert np.isnan(tensors["prompt_top_logprobs"][0]).all()
    assert tensors["prompt_ranks"].tolist() == [0, 3]
    assert {value.dtype.name for name, value in tensors.items() if "logprobs" in name} == {"float32"}
