"""Reports usage until it is killed and prints each accepted event's key. Without a prefix, sends the remaining events.

With slugs of Organizations, the key is a service key.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from itertools import count

from gauge import ReportedEvent, Reporter

base_url, key, directory, product, prefix, *slugs = sys.argv[1:]
reporter = Reporter(
    base_url, None if slugs else key, directory, service_key=key if slugs else None, interval=0.02
)
print(f"ready {reporter.bytes}", flush=True)
if prefix == "":
    print(str(reporter.close(60)).lower(), flush=True)
    sys.exit()

numbers = count()


def report() -> None:
    while True:
        number = next(numbers)
        key = f"{prefix}-{number}"
        event: ReportedEvent = {"productSlug": product, "metric": "calls", "quantity": 1, "idempotencyKey": key}
        if slugs:
            event["organization"] = slugs[number % len(slugs)]
        reporter.report(event)
        os.write(1, f"{key}\n".encode())
        time.sleep(random.random() / 200)


for _ in range(4):
    threading.Thread(target=report).start()
