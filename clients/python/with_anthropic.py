"""The official client of Anthropic's API against the gateway."""

from anthropic import Anthropic, APIError, AuthenticationError, BadRequestError, RateLimitError

from steps import broken, gateway, key, refusal, step, useless

client = Anthropic(base_url=gateway, api_key=key)
question = [{"role": "user", "content": "hi"}]


def ask(model, by=client, max_tokens=50, **more):
    return by.messages.create(model=model, max_tokens=max_tokens, messages=question, **more)


@step("whole")
def _():
    a = ask("mock:text=hello")
    assert a.content[0].text == "hello", a
    assert a.usage.output_tokens == 16, a


@step("streamed")
def _():
    with client.messages.stream(model="mock:text=hello,chunks=5", max_tokens=50, messages=question) as s:
        a = s.get_final_message()
    assert a.content[0].text == "hello", a
    assert a.usage.output_tokens == 16, a


@step("a tool")
def _():
    a = ask("mock:tool")
    assert a.content[0].name == "weather", a


@step("a tool, streamed")
def _():
    with client.messages.stream(model="mock:tool", max_tokens=50, messages=question) as s:
        a = s.get_final_message()
    assert a.content[0].input == {"city": "Paris"} and a.stop_reason == "tool_use", a


@step("another endpoint")
def _():
    a = client.messages.count_tokens(model="m", messages=question)
    assert a.input_tokens > 0, a


@step("larger than its limit")
def _():
    useless(refusal(RateLimitError, lambda: ask("tight", max_tokens=5000)))


@step("refused by the provider")
def _():
    refusal(BadRequestError, lambda: ask("mock:status=400"))


@step("room in a second")
def _():
    ask("soon")
    ask("soon")


@step("room in an hour")
def _():
    ask("later")
    useless(refusal(RateLimitError, lambda: ask("later")), later=True)


@step("with a wrong key")
def _():
    refusal(AuthenticationError, lambda: ask("m", by=client.with_options(api_key="wrong")))


@step("cut in the middle")
def _():
    broken(APIError, lambda: ask("mock:cut-at=3,silent", stream=True))


@step("a client that leaves")
def _():
    stream = ask("mock:output=1000,chunks=1000,between=20ms", max_tokens=1000, stream=True)
    next(iter(stream))
    stream.close()
