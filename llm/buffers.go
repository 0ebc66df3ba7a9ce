package llm

import "sync"

// buffers are what bodies are read into on their way.
var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}
