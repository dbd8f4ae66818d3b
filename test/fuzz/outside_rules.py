"""Says what the OpenAPI document cannot: Schemathesis loads this file as its hooks."""

import os
import re

import schemathesis

# Rules about several fields, the clock or earlier answers, which a JSON schema cannot express. The 422 answers have more.
RULES = re.compile(
    "|".join(
        [
            "cursor (is not a cursor from this list|does not match a market)",
            "to must be later than from",
            "must be in the future",
            "must not be (in the past|after|before)",
            "must not (name|repeat)",
            "names .* twice",
            "must appear only once",
            "must begin with .*: dimensions",
            "must be (within|one of the dimensions|a calendar window or a duration from PT1H)",
            "/[^ ]+ needs ",
            "is required (for|with) (a rollover|prices|quantity|the page keys)",
            "cannot be (turned off|combined)",
            "cannot change while",
            "is (only for|a reserved name)",
            "bytes of JSON",
            "lead of daily_m(in|ax)imum must be one of",
            "groupBy cannot be .* with subject",
            "groupBy must be apiKey or subject",
            "/from must be below the newest version",
            "/expiresAt must be later than the start",
            "/password is too easy to guess",
            "/url ",
            "/returnUrl must be a URL",
            "must be in the years 1970 to 9999",
            "/endsAt must be later than the start",
            "/(postOnly|cancelOn) is allowed only with",
            "at most two decimals",
            "subject is required if data has no productSlug",
            "/productSlugs or items is required, but not both",
            "/member must be the address of an owner or admin",
            "/reason is required unless the state is open",
            "/expiresAt is allowed only with good_till_time",
            "/limitPrice must be above .* and a multiple of",
        ]
    )
)


@schemathesis.hook
def before_call(context, case, kwargs):
    # Each call comes from another address, because calls without a valid credential are counted by address.
    case.headers["X-Forwarded-For"] = ".".join(map(str, [10, *os.urandom(3)]))


@schemathesis.check
def accepts_valid_data(ctx, response, case):
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    detail = response.json()["detail"]
    assert RULES.search(detail), f"refused what the document allows: {detail}"
