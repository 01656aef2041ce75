"""Speech: forms with a file that a worker writes down, in its own language or in English.

What generation needs too lives in `requests`, `inference`, `placement` and `answers`; forms and files in `http`.
"""
