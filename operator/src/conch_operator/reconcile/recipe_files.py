"""Pure: the files of the Triton repository of one engine on the cpu runtime, from the recipe that it is made from."""

from collections.abc import Mapping

from conch_operator.state import EngineRecipe
from conch_operator.triton.cpu_repository import CpuModel, render_cpu_repository


def repository_files(recipe: EngineRecipe, cache_folder: str) -> Mapping[str, str]:
    """Return the files by path; `cache_folder` is where the engine may keep what it makes of the model."""
    model = CpuModel(
        name=recipe.triton_model,
        model_folder=str(recipe.folder),
        cache_folder=cache_folder,
        quantization=recipe.quantization,
        max_batch_size=recipe.max_batch_size,
        output=recipe.output,
        tokens_per_second=recipe.tokens_per_second,
        max_length=recipe.max_length,
        dialect=recipe.dialect,
        sees=recipe.sees,
    )
    return render_cpu_repository(model)
