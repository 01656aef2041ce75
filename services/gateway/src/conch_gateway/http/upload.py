"""Reads a form with one file: the fields come back, the file goes to its spool as it arrives."""

from collections.abc import Mapping, Sequence

from conch_gateway.http.form_parser import FormField, FormParser, boundary_of, too_large
from conch_gateway.http.upload_spool import UploadSpool
from conch_kit.errors import BodyTooLarge
from conch_kit.http.asgi import ClientGone, Message, Receive

FILE = "file"
MAX_FORM_BYTES = 1024 * 1024
"""Of all that is not the file: fields, boundaries, heads of parts, and what stands before and behind the form."""


async def read_form(
    receive: Receive, headers: Mapping[bytes, bytes], spool: UploadSpool, *, max_file_bytes: int
) -> Sequence[FormField] | None:
    """Return the fields of a form, once its file is in the spool; None where there is no file.

    Raises a ServiceError for what is wrong with it, before anything is read where its head says so, and ClientGone.
    """
    parser = FormParser(boundary_of(headers), FILE, spool.add, max_file_bytes=max_file_bytes)
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and (len(announced) > 18 or int(announced) > max_file_bytes + MAX_FORM_BYTES):
        raise too_large(max_file_bytes, FILE)
    size = 0
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece: bytes = message.get("body", b"")
        size += len(piece)
        parser.feed(piece)
        if size - parser.file_bytes > MAX_FORM_BYTES:
            raise BodyTooLarge(
                f"Expected at most {MAX_FORM_BYTES} bytes beside the file; send fewer and shorter fields."
            )
        await spool.settle()
        if not message.get("more_body", False):
            parser.finish()
            return parser.fields if parser.has_file else None
