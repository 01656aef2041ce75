"""Command line: makes the model, or one step of it, in a folder of its own."""

import argparse
import json
from pathlib import Path
from random import Random

import torch
from transformers.utils import logging

from models.tiny_whisper.checking import Check
from models.tiny_whisper.folder import write_folder
from models.tiny_whisper.golden import write_golden
from models.tiny_whisper.network import read_network, set_times_in_order
from models.tiny_whisper.training import BatchMaker, TrainingPlan, train
from models.tiny_whisper.voices import draw_utterances, keep, read_kept
from models.tiny_whisper.windows import Studio
from models.tiny_whisper.writing import Writer

STEPS = ("speak", "train", "export", "golden")
_HELD_OUT = 400
"""So many utterances are never in a window that training shows."""


def main() -> None:
    """Do what the command line names."""
    arguments = _arguments()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    logging.set_verbosity_error()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    chosen = arguments.steps or STEPS
    spoken, trained, folder = work / "utterances.npz", work / "tiny-whisper.pt", work / "tiny-whisper"
    if "speak" in chosen:
        keep(draw_utterances(Random(arguments.seed), arguments.utterances), spoken)
    network, writer = read_network(arguments.start), Writer(arguments.start)
    if arguments.times_in_order:
        set_times_in_order(network, writer, arguments.seed)
    if "train" in chosen:
        utterances = read_kept(spoken)
        batches = BatchMaker(Studio(utterances[:-_HELD_OUT], arguments.seed), writer)
        check = Check(Studio(utterances[-_HELD_OUT:], 1), arguments.start, 10)
        plan = TrainingPlan(arguments.train_seconds, arguments.rate)
        train(plan, network, batches, trained, lambda: json.dumps(check.rates(network)))
    if "export" in chosen:
        network.load_state_dict(torch.load(trained))
        write_folder(network, arguments.start, folder)
    if "golden" in chosen:
        rates = Check(Studio(read_kept(spoken)[-_HELD_OUT:], 2), folder, arguments.checked)
        write_golden(folder, arguments.start, rates)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m models.tiny_whisper", description=__doc__)
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], help="what to do; all of it without")
    parser.add_argument("--work", type=Path, default=Path("speech.work"), help="where what is made is kept")
    parser.add_argument("--start", type=Path, default=Path("examples/tiny-whisper"), help="the model to go on from")
    parser.add_argument("--threads", type=int, default=2, help="threads to train with")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn; another one to train on with others")
    parser.add_argument("--utterances", type=int, default=6000, help="how many are said")
    parser.add_argument(
        "--times-in-order", action="store_true", help="forget the ids of times that the start knows, once"
    )
    parser.add_argument("--train-seconds", type=float, default=2400, help="how long it learns parts of windows")
    parser.add_argument("--checked", type=int, default=50, help="windows of each kind that golden.json tells of")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate")
    return parser.parse_args()


if __name__ == "__main__":
    main()
