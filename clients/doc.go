// Package clients holds the official clients of language models against the gateway: those in
// Go here, those in JavaScript and Python in the folders of these names. Package mcp has those
// of MCP against the broker. It is a module of its own, so that whoever imports sluice does not
// get them too.
package clients
