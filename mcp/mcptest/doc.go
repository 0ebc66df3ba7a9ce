// Package mcptest is the other side of a broker in tests: a provider that does what it is
// told, over every transport and in both eras of the protocol, and a prober that sends
// exactly the bytes that it is given.
//
// It knows nothing of the broker's own packages and reads frames with encoding/json alone, so
// that a mistake there cannot hide behind the same mistake here. What a provider does is said
// by the call that it gets: the tool's name is the behaviour, its arguments are the details.
//
//	{"name": "echo", "arguments": {…}}                     the arguments, byte for byte
//	{"name": "hold", "arguments": {"key": "a", "n": 2}}    progress 1 to 2 and then nothing, until the test or "release" says so
//	{"name": "release", "arguments": {"key": "a"}}         answers what is held under that key
//	{"name": "wait", "arguments": {"ms": 20}}              an answer after that time
//	{"name": "silent"}                                     never an answer
//	{"name": "progress", "arguments": {"n": 3}}            progress 1 to 3 and the answer, in one write
//	{"name": "late", "arguments": {"n": 3}}                the answer, and progress after it
//	{"name": "big", "arguments": {"bytes": 1000000}}       so much text
//	{"name": "raw", "arguments": {"frames": ["…"]}}        these frames and nothing else; $ID and $TOKEN are the call's
//	{"name": "error", "arguments": {"code": -1, "message": "…", "data": …}}
//	{"name": "fail"}                                       a result that is an error of the tool
//	{"name": "ask", "arguments": {"method": "sampling/createMessage", "params": {…}}}  asks the client, answers with what it said
//	{"name": "change", "arguments": {"add": ["x"], "remove": ["y"]}}  other tools, and list_changed
//	{"name": "task", "arguments": {"key": "a"}}            a task, done when "release" says so
//	{"name": "input"}                                      input_required; the answer to the second request with inputResponses
//	{"name": "die"}                                        the end of the process, or of the connection
//
// A call that is cancelled does what Options.Cancel says, or its own argument "cancel".
package mcptest
