"""The official client of OpenAI's API against the gateway."""

import json

from openai import APIError, AuthenticationError, BadRequestError, OpenAI, RateLimitError

from steps import broken, gateway, key, refusal, step, useless

client = OpenAI(base_url=gateway + "/v1", api_key=key)


def chat(model, by=client, max_tokens=50, **more):
    return by.chat.completions.create(model=model, max_tokens=max_tokens, messages=[{"role": "user", "content": "hi"}], **more)


@step("whole")
def _():
    a = chat("mock:text=hello")
    assert a.choices[0].message.content == "hello", a
    assert a.usage.completion_tokens == 16, a


@step("streamed")
def _():
    pieces = list(chat("mock:text=hello,chunks=5", stream=True))
    assert "".join(p.choices[0].delta.content or "" for p in pieces) == "hello", pieces
    assert not any(p.usage for p in pieces), "usage that nobody asked for"


@step("a tool")
def _():
    a = chat("mock:tool")
    assert a.choices[0].message.tool_calls[0].function.name == "weather", a


@step("a tool, streamed")
def _():
    calls = [c for p in chat("mock:tool", stream=True) for c in p.choices[0].delta.tool_calls or []]
    assert calls[0].function.name == "weather", calls
    assert json.loads("".join(c.function.arguments for c in calls)) == {"city": "Paris"}, calls


@step("another endpoint")
def _():
    a = client.responses.create(model="mock:text=hello", input="hi")
    assert a.output_text == "hello", a


@step("larger than its limit")
def _():
    useless(refusal(RateLimitError, lambda: chat("tight", max_tokens=5000)))


@step("refused by the provider")
def _():
    refusal(BadRequestError, lambda: chat("mock:status=400"))


@step("room in a second")
def _():
    chat("soon")
    chat("soon")


@step("room in an hour")
def _():
    chat("later")
    useless(refusal(RateLimitError, lambda: chat("later")), later=True)


@step("with a wrong key")
def _():
    refusal(AuthenticationError, lambda: chat("m", by=client.with_options(api_key="wrong")))


@step("cut in the middle")
def _():
    broken(APIError, lambda: chat("mock:cut-at=3,silent", stream=True))


@step("a client that leaves")
def _():
    stream = chat("mock:output=1000,chunks=1000,between=20ms", max_tokens=1000, stream=True)
    next(iter(stream))
    stream.close()
