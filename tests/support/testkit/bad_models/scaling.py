"""Specs that ask for engines by load in a way that cannot be obeyed."""

from testkit.bad_models.case import EXTERNAL, Case, Spec, engine


def _scaling(**fields: object) -> Spec:
    return {"scaling": {"maxReplicas": 4, **fields}}


def _schedule(**fields: object) -> Spec:
    return _scaling(schedules=[{"cron": "* 8-17 * * 1-5", "min": 2, **fields}])


_CRON, _ZONE = "spec.scaling.schedules[0].cron", "spec.scaling.schedules[0].timeZone"

SCALING_CASES = (
    Case(
        4,
        "scaling and replicas",
        {"replicas": 2, **_scaling()},
        "replicas",
        {"replicas": 1, **_scaling()},
        "scaling decides how many engines there are: remove replicas",
    ),
    Case(
        4,
        "an external engine that scales",
        {**engine(external=EXTERNAL), **_scaling()},
        "scaling",
        engine(external=EXTERNAL),
        "so it cannot scale: remove scaling",
    ),
    *(
        Case(
            4,
            f"requests that wait for somebody else, with {name}",
            {**other, "routing": {"hold": 9}},
            "spec",
            {"routing": {"hold": 9}},
            "routing.hold is for models whose replicas an autoscaler of yours sets",
        )
        for name, other in (
            ("scaling", _scaling()),
            ("a pool", {"kind": "Embedding", "placement": {"pool": "encoders"}}),
            ("an external engine", engine(external=EXTERNAL)),
        )
    ),
    Case(16, "no maximum", {"scaling": {"minReplicas": 1}}, "maxReplicas", _scaling(minReplicas=1)),
    Case(
        16,
        "a minimum above the maximum",
        _scaling(minReplicas=5),
        "spec.scaling",
        _scaling(minReplicas=0),
        "minReplicas is more than maxReplicas",
    ),
    Case(
        16,
        "a schedule above the maximum",
        _schedule(min=5),
        "spec.scaling",
        _schedule(min=4),
        "schedules holds a min that is more than maxReplicas",
    ),
    Case(16, "a minute that there is not", _schedule(cron="60 * * * *"), _CRON, _schedule(cron="*/5 0-6,22,23 1 * *"),
         "must be five fields of numbers"),
    Case(16, "a range from high to low", _schedule(cron="* 17-8 * * *"), _CRON, _schedule(cron="0-59/10 * 31 12 7"),
         "a range from low to high"),
    Case(16, "names of days", _schedule(cron="* * * * MON"), _CRON, _schedule(cron="* * * * 1,2,3"), "such as * 8-17"),
    Case(16, "a day that February has not", _schedule(cron="0 0 30,31 2 *"), _CRON, _schedule(cron="0 0 30 2 1"),
         "days that no month has"),
    Case(16, "a 31st of shorter months", _schedule(cron="0 0 31 2,4,11 *"), _CRON, _schedule(cron="0 0 31 4,5 *"),
         "name other days or months"),
    Case(16, "a zone that there is not", _schedule(timeZone="Mars/Olympus"), _ZONE, _schedule(timeZone="Asia/Shanghai"),
         "must be the name of a time zone"),
    Case(16, "an offset as zone", _schedule(timeZone="+01:00"), _ZONE, _schedule(timeZone="Europe/Berlin"),
         "such as Europe/Berlin"),
    Case(16, "a target above all slots", _scaling(target="1.5"), "spec.scaling.target", _scaling(target="0.5"),
         "more than 0 and at most 1"),
)  # fmt: skip
