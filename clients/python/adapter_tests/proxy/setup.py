"""What the proxy of the tests loads: a callback for Gauge, and keys whose names say what their metadata are."""

from __future__ import annotations

import os

from litellm.proxy._types import UserAPIKeyAuth

from gauge.litellm import GaugeProxy

SLUG = os.environ["GAUGE_ORGANIZATION"]

gauge = GaugeProxy(
    os.environ["GATE_URL"],
    os.environ["GAUGE_SERVICE_KEY"],
    os.environ["SPOOL"],
    product_slug=os.environ["GAUGE_PRODUCT_FOR_40"],
    on_unavailable="spool" if os.environ["ON_UNAVAILABLE"] == "spool" else "refuse",
    ttl_seconds=int(os.environ["TTL"]),
)


async def authenticate(request: object, api_key: str) -> UserAPIKeyAuth:
    key = {"gauge_organization": SLUG if api_key == "sk-key" else "nobody"}
    team = {"gauge_organization": SLUG} if api_key == "sk-team" else None
    return UserAPIKeyAuth(api_key=api_key, metadata={} if api_key == "sk-none" else key, team_metadata=team)
