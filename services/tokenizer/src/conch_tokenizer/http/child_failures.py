"""What a caller is told when a child hung, died, or cannot load a tokenizer."""

import logging

from msgspec import Raw

from conch_contracts.messages.message import Message, from_json
from conch_kit.errors import InternalError, InvalidRequest, ServiceError, Unavailable
from conch_tokenizer.errors import (
    TEMPLATE_ERROR,
    BundleUnreadable,
    ChildError,
    ChildHung,
    ChildLost,
    WorkStage,
)

log = logging.getLogger(__name__)


class _HungPicture(Message, frozen=True):
    param: str


class _HungChat(Message, frozen=True):
    chat_template_param: str = "messages"
    pictures: tuple[_HungPicture, ...] = ()


class _HungRequest(Message, frozen=True):
    """What is looked at of a request that a child hung or ended over; all else, its prompt too, is only passed over."""

    chat: _HungChat | None = None
    texts: Raw = Raw()
    """Of rows."""
    pictures: tuple[_HungPicture, ...] = ()
    """Of rows, which are no chat."""

    @property
    def text_param(self) -> str:
        """What its text is called."""
        return "messages" if self.chat is not None else "rows" if self.texts else "prompt"


def as_service_error(exc: ChildError | BundleUnreadable, body: bytes) -> ServiceError:
    """Return what the caller is told; logs what only an operator can mend."""
    match exc:
        case ChildHung(picture=int(index)) | ChildLost(picture=int(index)):
            return _unread_picture(exc, index, body)
        case ChildHung():
            return _hung(exc, body)
        case ChildLost():
            return Unavailable("the tokenizer ended twice over this request")
        case BundleUnreadable():
            log.error("A tokenizer cannot be loaded.", extra={"reason": str(exc)})
            return Unavailable("the tokenizer of this model cannot be loaded", code="tokenizer_invalid")
        case _:
            return InternalError("the tokenizer failed")


def _unread_picture(exc: ChildHung | ChildLost, index: int, body: bytes) -> ServiceError:
    request = from_json(_HungRequest, body)
    pictures = request.pictures if request.chat is None else request.chat.pictures
    if index >= len(pictures):
        return InternalError("the tokenizer failed")
    took = f"more than {exc.limit_s:g} s" if isinstance(exc, ChildHung) else "more than a picture may take"
    message = f"reading this picture took {took}; make it smaller or save it anew"
    return InvalidRequest(message, param=pictures[index].param, code="invalid_value")


def _hung(exc: ChildHung, body: bytes) -> ServiceError:
    took_too_long = f"the text could not be encoded within {exc.limit_s:g} s"
    if exc.stage is WorkStage.STARVED:
        return Unavailable(took_too_long)
    if exc.stage is WorkStage.ENCODING:
        param = from_json(_HungRequest, body).text_param
        return InvalidRequest(f"{took_too_long}; make it shorter", param=param, code="too_complex")
    chat = from_json(_HungRequest, body).chat if exc.stage is WorkStage.BEGUN else None
    if chat is not None:
        message = f"the chat template did not finish within {exc.limit_s:g} s"
        return InvalidRequest(message, param=chat.chat_template_param, code=TEMPLATE_ERROR)
    return Unavailable(f"the tokenizer did not answer within {exc.limit_s:g} s", retryable=True)
