"""What can go wrong in the cpu runtime.

RuntimeFault
├── UnusableModel       the folder cannot be served; the model does not load
├── UnservableRequest   the request cannot be obeyed; only it fails
├── EngineStopped       the engine has crashed or is ending; the request may be tried elsewhere
└── ChannelClosed       an answer cannot be delivered any more
"""


class RuntimeFault(Exception):
    """Anything that the cpu runtime raises by itself."""


class UnusableModel(RuntimeFault):
    """A model folder that cannot be served; the message names the file or the field."""


class UnservableRequest(RuntimeFault):
    """A request whose ids or parameters cannot be obeyed; the message names what."""


class EngineStopped(RuntimeFault):
    """The engine takes no requests; the message says why."""


class ChannelClosed(RuntimeFault):
    """The server refused a message for a request."""
