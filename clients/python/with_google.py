"""Google's client of Gemini's API against the gateway. It does not try again by itself, and
does not notice a stream that ends early: nothing in that dialect says that a stream is whole."""

from google import genai
from google.genai import errors, types

from steps import gateway, key, refusal, step


def client(key):
    return genai.Client(api_key=key, http_options=types.HttpOptions(base_url=gateway))


google = client(key)


def ask(model, by=google, output=50):
    return by.models.generate_content(model=model, contents="hi", config=types.GenerateContentConfig(max_output_tokens=output))


def refused(status, call):
    error = refusal(errors.ClientError, call)
    assert error.code == status, error


@step("whole")
def _():
    a = ask("mock:text=hello")
    assert a.text == "hello", a
    assert a.usage_metadata.candidates_token_count == 16, a


@step("streamed")
def _():
    pieces = list(google.models.generate_content_stream(model="mock:text=hello,chunks=5", contents="hi"))
    assert "".join(p.text or "" for p in pieces) == "hello", pieces


@step("a tool")
def _():
    a = ask("mock:tool")
    assert a.function_calls[0].name == "weather" and a.function_calls[0].args == {"city": "Paris"}, a


@step("a tool, streamed")
def _():
    calls = [c for p in google.models.generate_content_stream(model="mock:tool", contents="hi") for c in p.function_calls or []]
    assert [c.name for c in calls] == ["weather"], calls


@step("another endpoint")
def _():
    a = google.models.count_tokens(model="m", contents="hi")
    assert a.total_tokens > 0, a


@step("larger than its limit")
def _():
    refused(429, lambda: ask("tight", output=5000))


@step("refused by the provider")
def _():
    refused(400, lambda: ask("mock:status=400"))


@step("with a wrong key")
def _():
    refused(401, lambda: ask("m", by=client("wrong")))


@step("a client that leaves")
def _():
    stream = google.models.generate_content_stream(model="mock:output=1000,chunks=1000,between=20ms", contents="hi")
    next(stream)
    stream.close()
