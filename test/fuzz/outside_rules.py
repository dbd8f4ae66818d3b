"""Says what the OpenAPI document cannot: Schemathesis loads this file as its hooks."""

import random
import re

import schemathesis

# Rules about several fields, the clock or earlier answers, which a JSON schema cannot express. The 422 answers have more.
RULES = re.compile("cursor")


@schemathesis.hook
def before_call(context, case, kwargs):
    # Each call comes from another address, because calls without a valid credential are counted by address.
    case.headers["X-Forwarded-For"] = f"10.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(256)}"


@schemathesis.check
def accepts_valid_data(ctx, response, case):
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    detail = response.json()["detail"]
    assert RULES.search(detail), f"refused what the document allows: {detail}"
