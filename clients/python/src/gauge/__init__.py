"""A typed client for Gauge's API, and a usage reporter that loses no events."""

from .client import GaugeClient, Hold
from .errors import CreditsExhaustedError, DeliveryError, GaugeError, OtherModeError, RefusedError, SpoolFullError
from .reporter import RefusedEvent, ReportedEvent, Reporter, SpooledEvent

__all__ = [
    "CreditsExhaustedError",
    "DeliveryError",
    "GaugeClient",
    "GaugeError",
    "Hold",
    "OtherModeError",
    "RefusedError",
    "RefusedEvent",
    "ReportedEvent",
    "Reporter",
    "SpoolFullError",
    "SpooledEvent",
]
