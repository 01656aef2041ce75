"""Bad ModelDeployments, each with an accepted twin: one table, run through the types and through a real API server.

The number of a case is its row in the catalogue of bad specs. Rows that no case has, and why:

| row | why |
|---|---|
| 9 (names that nothing has), 12, 26, 28 | need other objects or nodes: a reason in the status, not a refusal |
| 24 (foreign) | what an author may not read is refused by a policy of the chart; no field names another namespace |
| 27 | which images may run is the administrator's to say: a policy of the chart; here the form is checked |
| 29 (syntax) | a template that Jinja cannot read is found when it is read; here its size is checked |
| 30 | limits and rights of the API server itself |
"""

from testkit.bad_models.addresses import ADDRESS_CASES, LOOPBACK_HOSTS, OTHER_HOSTS, naming
from testkit.bad_models.case import Case, model
from testkit.bad_models.forms import FORM_CASES
from testkit.bad_models.pictures import PICTURE_CASES
from testkit.bad_models.placement import PLACEMENT_CASES
from testkit.bad_models.pods import POD_CASES
from testkit.bad_models.rules import RULE_CASES
from testkit.bad_models.scaling import SCALING_CASES
from testkit.bad_models.speech import SPEECH_CASES

__all__ = ["CASES", "LOOPBACK_HOSTS", "NAMES_ACCEPTED", "NAMES_REFUSED", "OTHER_HOSTS", "Case", "model", "naming"]

CASES = (
    *ADDRESS_CASES,
    *FORM_CASES,
    *PICTURE_CASES,
    *PLACEMENT_CASES,
    *POD_CASES,
    *RULE_CASES,
    *SCALING_CASES,
    *SPEECH_CASES,
)
NAMES_REFUSED = ("a" * 41, "dots.in.it")
"""Row 8: names of children would be too long, or no names. Kubernetes itself refuses `../x` and `Upper`."""
NAMES_ACCEPTED = ("a" * 40, "7b-chat")
