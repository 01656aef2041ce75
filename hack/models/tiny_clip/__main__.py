"""Command line: makes the model, or one step of it, in the folder where tiny-vlm's tower is."""

import argparse
from pathlib import Path

import torch

from models.tiny_clip.golden import write_folder, write_golden
from models.tiny_clip.network import make_tokenizer, new_network
from models.tiny_clip.training import train

STEPS = ("train", "export", "golden")
_TOKENIZER_SEED = 1


def main() -> None:
    """Do what the command line names."""
    arguments = _arguments()
    work: Path = arguments.work
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    chosen = arguments.steps or STEPS
    tower, trained, folder = work / "tower.pt", work / "tiny-clip.pt", work / "tiny-clip"
    if not tower.exists():
        raise SystemExit(f"{tower} is missing: python -m models.tiny_vlm --work {work} tower")
    tokenizer = make_tokenizer(_TOKENIZER_SEED)
    network = new_network(tokenizer, tower)
    if "train" in chosen:
        train(arguments.seconds, network, tokenizer, arguments.seed, trained)
    if "export" in chosen:
        network.load_state_dict(torch.load(trained))
        write_folder(network, tokenizer, folder)
    if "golden" in chosen:
        write_golden(folder)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m models.tiny_clip", description=__doc__)
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], help="what to do; all of it without")
    parser.add_argument("--work", type=Path, default=Path("pictures.work"), help="where tiny-vlm's steps keep theirs")
    parser.add_argument("--threads", type=int, default=2, help="threads to train with")
    parser.add_argument(
        "--seed", type=int, default=1, help="of what is drawn; another one to train on with other pictures"
    )
    parser.add_argument("--seconds", type=float, default=900, help="how long it is trained")
    return parser.parse_args()


if __name__ == "__main__":
    main()
