// Package translate puts requests and answers of OpenAI's chat into Anthropic's messages, and
// the other way round, so that a request can be answered by a provider of the other dialect.
//
// It translates what can be translated without loss and nothing else: a request with a field,
// a value or an order that the other dialect cannot say is refused with a [*Loss] that names
// it. No field is left out because nobody here knows it. What is left out is what says
// nothing: null, and a default that the other side has too.
//
// # What passes
//
// Text, in one piece or in parts; system and developer messages that stand first; pictures as
// base64 or by an https address; tools, their calls and their results, several at once too;
// tool_choice and parallel_tool_calls; stop, from chat to messages; temperature up to 1,
// top_p, the bound of the output, user, stream and include_usage. Texts, identifiers,
// numbers, schemas and the arguments of tools keep their bytes.
//
// # What does not
//
// n above 1, logprobs, logit_bias, penalties, seed, response_format, reasoning_effort, strict
// tools, names of speakers, image detail, audio, files, documents, citations, cache_control,
// thinking and its signatures, top_k, results of tools that are errors or have pictures,
// service tiers, stored answers, tools of the provider. stop_sequences of messages: chat does
// not say which of them ended an answer. A system message in the middle, and a conversation
// that ends with the assistant, which Anthropic continues and OpenAI answers.
//
// In answers the model's words count: text, calls, refusals. An answer with anything else that
// was said is an error. Reasoning is not passed on, because neither dialect shows it to those
// who did not ask; its tokens are in the usage.
//
// The formats are those of the providers' references, as of August 2026. The package makes no
// request, knows no clock and keeps no state between requests.
package translate
