"""A simulated day of one model that scales, second by second, by the operator's own rule.

`loads` are four kinds of days, `simulation` lives through one, `oracle` says what somebody who knows the day in advance
would have spent, `picture` describes one for the page about scaling.
"""
