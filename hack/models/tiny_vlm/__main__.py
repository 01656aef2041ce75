"""Command line: makes the model, or one step of it, in a folder of its own."""

import argparse
import json
from pathlib import Path

import torch

from models.drawings.tower import train_tower
from models.tiny_vlm.folder import write_folder
from models.tiny_vlm.golden import write_golden, write_vectors
from models.tiny_vlm.network import chat_tokenizer, finished, new_network
from models.tiny_vlm.training import BatchMaker, TrainingPlan, said_by_chat, train

STEPS = ("tower", "train", "export", "golden", "vectors")
_CHAT = Path("examples/tiny-chat")
_KNOWN_TIMES = 4
"""So often tiny-chat's own reference stands among the texts."""


def main() -> None:
    """Do what the command line names."""
    arguments = _arguments()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    chosen = arguments.steps or STEPS
    tower, trained, folder = work / "tower.pt", work / "tiny-vlm.pt", work / "tiny-vlm"
    if "tower" in chosen:
        train_tower(arguments.tower_seconds, arguments.seed, tower)
    if "train" in chosen:
        tokenizer = chat_tokenizer(_CHAT)
        known = [(each["prompt_ids"], each["output_ids"]) for each in _known_items()]
        batches = BatchMaker(tokenizer, said_by_chat(_CHAT, tokenizer, known * _KNOWN_TIMES), arguments.seed)
        plan = TrainingPlan(arguments.train_seconds, arguments.rate)
        train(plan, new_network(_CHAT, tower), batches, trained)
    if "export" in chosen:
        network = new_network(_CHAT, tower)
        network.load_state_dict(torch.load(trained))
        write_folder(finished(network, _CHAT), _CHAT, folder)
    if "golden" in chosen:
        write_golden(folder)
    if "vectors" in chosen:
        write_vectors(folder)


def _known_items() -> list[dict[str, list[int]]]:
    items: list[dict[str, list[int]]] = json.loads((_CHAT / "golden.json").read_text())["items"]
    return items


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m models.tiny_vlm", description=__doc__)
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], help="what to do; all of it without")
    parser.add_argument("--work", type=Path, default=Path("pictures.work"), help="where what is made is kept")
    parser.add_argument("--threads", type=int, default=2, help="threads to train with")
    parser.add_argument(
        "--seed", type=int, default=1, help="of what is drawn; another one to train on with other pictures"
    )
    parser.add_argument("--tower-seconds", type=float, default=600, help="how long the tower is trained")
    parser.add_argument("--train-seconds", type=float, default=1800, help="how long the whole is trained")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="learning rate of the whole")
    return parser.parse_args()


if __name__ == "__main__":
    main()
