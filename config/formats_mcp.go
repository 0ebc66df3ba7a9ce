package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/resource"
)

// capabilityForm is what a capability looks like.
const capabilityForm = `^[A-Za-z0-9][A-Za-z0-9._:-]*$`

// pathWords are names in the broker's paths that no slot may have: /provider/SLOT and /providers
// are where providers dial in.
var pathWords = []string{"provider", "providers"}

// checkSlot keeps to what a path and the name of a tool can carry. A name with an underscore
// first is the broker's own.
func checkSlot(s string) (Code, error) {
	if slices.Contains(pathWords, s) {
		return CodeValue, fmt.Errorf("%q is where providers dial in; take another name", s)
	}
	return slotWord(s)
}

var slotWord = word(CodeValue, `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`,
	"a slot: 1 to 64 of letters, digits, dot, underscore and hyphen, a letter or digit first")

// checkResourcePath accepts one resource: an absolute path without wildcards.
func checkResourcePath(s string) (Code, error) {
	if _, err := resource.Clean(s); err != nil {
		return CodePattern, errors.New(strings.TrimPrefix(err.Error(), "resource: "))
	}
	return "", nil
}

// checkMCPURL accepts the address of an MCP server.
func checkMCPURL(s string) (Code, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || !slices.Contains([]string{"http", "https", "ws", "wss"}, u.Scheme) || u.Host == "":
		return CodeValue, fmt.Errorf(`%q is no address of an MCP server; write "https://host/mcp", or ws:// or wss:// for a WebSocket`, s)
	case u.User != nil || u.Fragment != "":
		return CodeValue, fmt.Errorf("the address of a server has no password and no fragment; give credentials in headers")
	}
	return "", nil
}

// checkOrigin accepts an origin as browsers send it, or all.
func checkOrigin(s string) (Code, error) {
	if s == "*" {
		return "", nil
	}
	return checkSite(s)
}

// defaultPorts are left out by browsers, and by clients that compare addresses.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// checkSite accepts a scheme and a host, with a port that is not the scheme's own.
func checkSite(s string) (Code, error) {
	u, err := url.Parse(s)
	if err != nil || defaultPorts[u.Scheme] == "" || u.Hostname() == "" || s != u.Scheme+"://"+u.Host || strings.ContainsAny(s, "*\"") {
		return CodeValue, fmt.Errorf(`%q is no address of scheme and host alone, such as "https://mcp.example.com"`, s)
	}
	if u.Port() == defaultPorts[u.Scheme] {
		return CodeValue, fmt.Errorf("%q has the port that %s means anyway, which clients leave out; remove it", s, u.Scheme)
	}
	return "", nil
}
