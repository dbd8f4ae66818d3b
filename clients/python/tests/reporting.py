"""Reports usage until it is killed and prints each accepted event's key. Without a prefix, sends the remaining events."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from itertools import count

from gauge import Reporter

base_url, api_key, directory, product, prefix = sys.argv[1:]
reporter = Reporter(base_url, api_key, directory, interval=0.02)
print(f"ready {reporter.bytes}", flush=True)
if prefix == "":
    print(str(reporter.close(60)).lower(), flush=True)
    sys.exit()

numbers = count()


def report() -> None:
    while True:
        key = f"{prefix}-{next(numbers)}"
        reporter.report({"productSlug": product, "metric": "calls", "quantity": 1, "idempotencyKey": key})
        os.write(1, f"{key}\n".encode())
        time.sleep(random.random() / 200)


for _ in range(4):
    threading.Thread(target=report).start()
