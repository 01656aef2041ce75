"""Speech: the whole path and the worker alone, beside direct calls to the same Triton; and what each stage costs."""
