"""Reserved GPU capacity in Python: what the command pcs-capacity answers, as objects.

    import pcs_capacity as pc

    for r in pc.list(blocks=True, available_only=True, min_capacity=8):
        print(r.id, r.instance_type, r.end)
    if not pc.fit("p5.48xlarge", 32, "7d").fits:
        cheapest = min(pc.offerings("p5.48xlarge", 32, "7d"), key=lambda o: o.start)

A function runs the command of the same name. Keywords are its flags: instance_types=["p5.48xlarge"] is
--instance-types p5.48xlarge. Answers have the names of its JSON as attributes, times as datetime. Nothing
here buys.

In a job, until_fence stops a training in time.
"""

import datetime
import json
import os
import re
import subprocess
import time
import warnings
from types import SimpleNamespace
from typing import Any, Callable, Iterable, Iterator, List, Optional, TypeVar

__all__ = ["Error", "fit", "left", "list", "offerings", "until_fence"]

COMMAND = "pcs-capacity"
T = TypeVar("T")


class Error(Exception):
    """The command failed.

    code is AWS's error code where AWS refused the call, else "usage" or "failed". answer is what the
    command answered nevertheless, as when one region of several did not; None if it answered nothing.
    """

    def __init__(self, message: str, code: str, answer: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.answer = answer


def list(**flags: Any) -> List[SimpleNamespace]:
    """Returns the reservations of this account, and those that others share with it."""
    return _ask("list", flags).reservations


def fit(instance_type: str, count: int, duration: str, **flags: Any) -> SimpleNamespace:
    """Says whether capacity is reserved for so many instances for so long: see fits, candidates, offerings."""
    return _ask("fit", {"instance_type": instance_type, "count": count, "duration": duration, **flags}, no="fits")


def offerings(instance_type: str, count: int, duration: str, **flags: Any) -> List[SimpleNamespace]:
    """Returns the Capacity Blocks that AWS sells."""
    return _ask("offerings", {"instance_type": instance_type, "count": count, "duration": duration, **flags}).offerings


def left(**flags: Any) -> Optional[datetime.timedelta]:
    """Returns the longest time limit with which a job could start now; None if none fits."""
    limit = getattr(_ask("left", flags, no="code"), "time_limit", "")
    if limit in ("", "UNLIMITED"):
        return datetime.timedelta.max if limit else None
    days, hours, minutes, seconds = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", limit).groups("0")
    return datetime.timedelta(int(days), int(seconds), minutes=int(minutes), hours=int(hours))


def until_fence(loader: Iterable[T], save: Callable[[], Any], lead: float = 900) -> Iterator[T]:
    """Yields what loader yields until lead seconds before jobs must end, then calls save once and ends.

    An extension of the block counts: the time is read again every minute. It needs the TaskProlog; without
    it, and in a reservation without an end, nothing ends early. A job with on_end=requeue is requeued a
    minute and Slurm's KillWait before the fence, which lead has to cover.
    """
    path = os.environ.get("PCS_CAPACITY_FACTS", "")
    must_end = float(os.environ.get("PCS_CAPACITY_FENCE") or "inf")
    if not path:
        warnings.warn("PCS_CAPACITY_FACTS is not set, so nothing ends before the block does: see TaskProlog")
    read_again = 0.0
    for item in loader:
        if path and time.monotonic() >= read_again:
            must_end = _fence(path, must_end)
            read_again = time.monotonic() + 60
        if time.time() >= must_end - lead:
            save()
            return
        yield item


def _fence(path: str, known: float) -> float:
    """Reads the fence anew; what is known stays where the file cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            facts = _parse(file.read())
    except (OSError, ValueError):
        return known
    fence = getattr(facts, "fence", None)
    return fence.timestamp() if fence else float("inf")


def _ask(command: str, flags: dict, no: str = "") -> Any:
    """Runs a command. With no, an answer that has this attribute and status 1 means "no", and is no error."""
    args = [COMMAND, "--output", "json", command]
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, (tuple, set, frozenset, type([]))):
            value = ",".join(map(str, value))
        if value is True:
            args.append(flag)
        elif value not in (None, False, ""):
            args.append("{}={}".format(flag, value))
    done = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, check=False)
    answer = _parse(done.stdout) if done.stdout.strip() else None
    if done.returncode == 0 or no and hasattr(answer, no) and not getattr(answer, "failed_regions", None):
        return answer
    message = re.sub("^pcs-capacity: ", "", done.stderr.strip()) or "status {}".format(done.returncode)
    refused = re.search(r"api error (\w+)", message)
    raise Error(message, refused.group(1) if refused else "usage" if done.returncode == 2 else "failed", answer)


def _parse(text: str) -> Any:
    def value(v: Any) -> Any:
        if isinstance(v, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", v):
            return datetime.datetime.strptime(v[:19] + "+0000", "%Y-%m-%dT%H:%M:%S%z")
        return v

    return json.loads(text, object_hook=lambda d: SimpleNamespace(**{k: value(v) for k, v in d.items()}))
