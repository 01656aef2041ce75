"""Settings of a gateway whose time-outs are not what is tested: longer than any pause of a busy machine."""

PATIENT = {"CONCH_CONNECT_TIMEOUT_S": "20", "CONCH_TOKENIZER_TIMEOUT_S": "60", "CONCH_REDIS_TIMEOUT_S": "20"}
"""Variables for its environment, which `conch up` passes on."""
