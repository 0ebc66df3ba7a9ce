// Package mcp holds the official clients of the Model Context Protocol, its reference servers and
// its conformance suite against the broker: those in Go here, those in JavaScript in ../node.
//
// Each test first does the same without a broker. What a client or a server does by itself
// is known then, and is not taken for something that the broker does.
package mcp
