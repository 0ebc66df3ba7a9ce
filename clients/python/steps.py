"""What the scripts share: a step tells the test that started the script how it went, and
waits until the test has looked at what the gateway has seen."""

import json
import os
import sys
import traceback

gateway = os.environ["GATEWAY"]
key = os.environ["KEY"]


def step(name):
    """Decorates a function that is run at once, as the step of this name."""

    def run(work):
        error = ""
        try:
            work()
        except Exception:
            error = traceback.format_exc()
        print(json.dumps({"step": name, "error": error}), flush=True)
        if not sys.stdin.readline():
            sys.exit(1)

    return run


def refusal(kind, call):
    """Returns the error with which a call fails."""
    try:
        call()
    except kind as e:
        return e
    raise AssertionError("the call went well")


def useless(error, later=False):
    """Checks that the client was told not to come again, or not before an hour has passed."""
    header = error.response.headers
    assert header["x-should-retry"] == "false", header
    assert not later or int(header["retry-after"]) > 3000, header


def broken(kind, call):
    """Reads a stream that fails after it has begun."""
    pieces = 0

    def read():
        nonlocal pieces
        for _ in call():
            pieces += 1

    refusal(kind, read)
    assert pieces > 0, "nothing came before the failure"
