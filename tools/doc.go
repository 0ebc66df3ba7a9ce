// Package tools holds no code: its go.mod pins the programs that check sluice, so
// that none of them enters the module graph of those who use it.
//
//	go tool -modfile=tools/go.mod staticcheck ./...
package tools
