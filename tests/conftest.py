"""Settings of the whole suite: the same examples every time, and no clock in a verdict."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "toolheads",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("toolheads")
