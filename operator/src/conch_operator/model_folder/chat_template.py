"""Reads chat templates: those of a folder, and the one that a ModelDeployment sets instead. They must compile.

Blocks on the disk, and for a moment on the compiler.
"""

from pathlib import Path

from conch_contracts.conditions import Reason
from conch_kit.bundles.archive import has_vision_config
from conch_operator.model_folder.errors import SourceError, TemplateUnchecked
from conch_operator.model_folder.json_files import read_object
from conch_operator.model_folder.template_check import fault_in
from conch_operator.state import DesiredModel, SourceFault


def read_chat_template(model: DesiredModel) -> str | None:
    """Return the template that a model sets instead of its folder's; raises SourceError."""
    override = model.deployment.spec.tokenizer.chat_template
    if override is None:
        return None
    if override.file is None:
        return _compiling(override.inline or "", "spec.tokenizer.chatTemplate.inline")
    path = model.base / override.file
    try:
        return _compiling(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        message = f"The chat template {path} cannot be read: {error}. Check spec.tokenizer.chatTemplate.file."
        raise SourceError(Reason.TOKENIZER_INVALID, message) from error


def read_templates(folder: Path) -> tuple[str, ...]:
    """Return the folder's chat templates, which compile: one in a file, or those of its settings.

    The file of models that see pictures goes before their settings, as with transformers' processors.
    """
    file = folder / "chat_template.jinja"
    if file.is_file():
        try:
            return (_compiling(file.read_text(encoding="utf-8"), str(file)),)
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(Reason.TEMPLATE_INVALID, f"The chat template {file} cannot be read: {error}") from error
    old = ("chat_template.json",) if has_vision_config(folder) else ()
    for name in (*old, "tokenizer_config.json"):
        settings = folder / name
        found = (read_object(settings, Reason.TOKENIZER_INVALID) or {}).get("chat_template")
        listed = found if isinstance(found, list) else [found]
        texts = [one.get("template") if isinstance(one, dict) else one for one in listed]
        compiling = tuple(_compiling(text, f"chat_template of {settings}") for text in texts if isinstance(text, str))
        if compiling:
            return compiling
    return ()


def template_fault(template: str, place: str) -> SourceFault | None:
    """Return what is wrong with a chat template; None when it compiles. Blocks for a moment the first time."""
    try:
        why = fault_in(template)
    except TemplateUnchecked as error:
        message = f"The chat template in {place} is not checked yet: {error}. It is tried again."
        return SourceFault(Reason.TEMPLATE_UNCHECKED, message)
    if why is None:
        return None
    return SourceFault(Reason.TEMPLATE_INVALID, f"The chat template in {place} does not compile: {why}. Repair it.")


def _compiling(template: str, place: str) -> str:
    fault = template_fault(template, place)
    if fault is not None:
        raise SourceError(fault.reason, fault.message)
    return template
