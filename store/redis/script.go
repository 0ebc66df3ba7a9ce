package redis

import (
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/sluicegate/sluice/limit"
)

//go:embed quick.lua
var quickScript string

//go:embed log.lua
var logScript string

//go:embed cells.lua
var cellsScript string

//go:embed records.lua
var recordsScript string

//go:embed commands.lua
var commandsScript string

//go:embed roots.lua
var rootsScript string

//go:embed call.lua
var callScript string

// serverTime is the beginning of every call: the server's own clock. now is in
// microseconds; spare is how much longer a cell is kept than it must be.
const serverTime = `local time = redis.call('TIME')
local now, spare = time[1] * 1000000 + time[2], 0
`

// brief is how long the marks are kept by which the server knows a command again that
// may have got lost on its way. It is longer than any connection stays silent.
const brief = 10 * time.Minute

// scriptText is the whole program that a server runs: a clock, the common case, the
// algorithms, the books.
// Prefix must not need quoting.
func scriptText(clock, prefix string, retention time.Duration) string {
	head := fmt.Sprintf("local PREFIX, RETENTION, BRIEF = '%s', %d, %d\n",
		prefix, retention.Milliseconds(), brief.Milliseconds())
	text := head + clock + quickScript + limit.Script() + logScript + cellsScript + recordsScript + commandsScript + rootsScript + callScript
	return withoutComments(text)
}

// withoutComments drops what is for readers only: the server keeps the text for good.
func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "--")
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}
