package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/resource"
	"github.com/sluicegate/sluice/internal/route"
)

// formats are what the texts of fields with a format tag must be.
var formats = map[string]func(string) (Code, error){
	"address":       checkAddress,
	"base-url":      checkBaseURL,
	"capability":    word(CodeValue, capabilityForm, "a capability: letters, digits and ._:-, a letter or digit first"),
	"capabilities":  word(CodeValue, capabilityForm+`|^\*$`, `a capability: letters, digits and ._:-, a letter or digit first, or "*" for all`),
	"dimension":     checkDimension,
	"pointer":       word(CodeValue, `^/`, "a JSON pointer; it begins with a slash"),
	"env":           word(CodeValue, `^[A-Za-z_][A-Za-z0-9_]*$`, "the name of an environment variable"),
	"header":        word(CodeValue, "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", "the name of a header"),
	"host":          word(CodeValue, `^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`, `a host such as "api.example.com" or "*.example.com", without a port`),
	"id":            checkID,
	"jwks":          checkJWKS,
	"mcp-url":       checkMCPURL,
	"origin":        checkOrigin,
	"lease":         word(CodeValue, `^([1-9]|[1-4][0-9]|50)%$`, "a part of a limit that can be given up; write 1% to 50%"),
	"method":        word(CodeValue, `^[A-Z][A-Z-]*$`, "a method in upper case, such as GET"),
	"pattern":       checkPattern,
	"plain-host":    word(CodeValue, `^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`, `a host such as "broker.example.com", without a port and without *`),
	"plain-id":      word(CodeID, `^[A-Za-z0-9._-]{1,128}$`, "an id of this block: 1 to 128 of letters, digits, dot, underscore and hyphen in ASCII"),
	"resource":      checkResource,
	"resource-path": checkResourcePath,
	"scope":         word(CodeValue, `^[\x21\x23-\x5b\x5d-\x7e]+$`, `a scope of OAuth: no blanks, no quotes, no backslashes (RFC 6749, 3.3)`),
	"selector":      checkSelector,
	"site":          checkSite,
	"slot":          checkSlot,
	"subject":       word(CodeValue, `^(user|group|client|service):[^*\x00-\x1f\x7f]+$|^anonymous$`, "a subject; write user:, group:, client: or service: and a name, without *"),
	"tool-prefix":   word(CodeValue, `^[A-Za-z0-9_.-]{0,64}$`, "a beginning of a tool's name: letters, digits and _.-"),
	"sha256":        checkSHA256,
	"unit":          word(CodeValue, `^[a-z][a-z0-9._-]{0,63}$`, "a unit: 1 to 64 of a-z, 0-9, dot, underscore and hyphen, a letter first"),
	"upstream":      checkUpstream,
	"uri":           checkURI,
	"zone":          checkZone,
}

func word(code Code, pattern, what string) func(string) (Code, error) {
	re := regexp.MustCompile(pattern)
	return func(s string) (Code, error) {
		if !re.MatchString(s) {
			return code, fmt.Errorf("%q is not %s", s, what)
		}
		return "", nil
	}
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9._:/*-]{1,128}$`)

// checkID keeps to what a header, a metric label and a log line can carry unquoted.
func checkID(s string) (Code, error) {
	if idForm.MatchString(s) {
		return "", nil
	}
	if len(s) > 128 {
		return CodeID, fmt.Errorf("an id of %d characters is too long; use at most 128", len(s))
	}
	for _, r := range s {
		if !idForm.MatchString(string(r)) {
			return CodeID, fmt.Errorf("the id %q has the character %q; use letters, digits and ._:/*- in ASCII, because the id is sent in headers", s, r)
		}
	}
	return CodeID, fmt.Errorf("an id must not be empty")
}

func checkAddress(s string) (Code, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok && path != "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return CodeValue, fmt.Errorf(`%q is no address to listen on; write "127.0.0.1:8080", ":8080" or "unix:/path"`, s)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return CodeValue, fmt.Errorf("%q is no port; use 1 to 65535", port)
	}
	if host != "" && host != "localhost" && !isIP(host) {
		return CodeValue, fmt.Errorf("%q is no address of this machine; write an IP address, or nothing for all", host)
	}
	return "", nil
}

func isIP(host string) bool { _, err := netip.ParseAddr(host); return err == nil }

// loopback reports whether only this machine can reach a listen address.
func loopback(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

func checkDimension(s string) (Code, error) {
	if _, ok := sluice.ParseDimension(s); !ok {
		return CodeValue, fmt.Errorf("%q is no dimension of a call%s; the dimensions are %s", s,
			suggestion(s, sluice.Dimensions()), strings.Join(sluice.Dimensions(), ", "))
	}
	return "", nil
}

func checkJWKS(s string) (Code, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return CodeValue, fmt.Errorf("%q is neither a URL nor a file", s)
	case u.Scheme == "http" && !loopback(net.JoinHostPort(u.Hostname(), "0")):
		return CodeValue, fmt.Errorf("keys that come over plain HTTP can be exchanged on the way; use https")
	case u.Scheme == "http" || u.Scheme == "https":
		if u.Host == "" || u.User != nil {
			return CodeValue, fmt.Errorf("the URL needs a host and must not carry a password")
		}
	}
	return "", nil
}

func checkPattern(s string) (Code, error) {
	if _, err := route.Parse(s, route.Options{}); err != nil {
		return CodePattern, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "route: "))
	}
	return "", nil
}

// checkResource accepts the hierarchical patterns of rules: * is one segment, ** last any
// number, and ** alone is everything.
func checkResource(s string) (Code, error) {
	if _, err := resource.Parse(s); err != nil {
		return CodePattern, errors.New(strings.TrimPrefix(err.Error(), "resource: "))
	}
	return "", nil
}

func checkSelector(s string) (Code, error) {
	if s == "" || len(s) > 2048 {
		return CodeValue, fmt.Errorf("must have 1 to 2048 bytes; leave the key out to match everything")
	}
	return "", nil
}

func checkSHA256(s string) (Code, error) {
	if b, err := hex.DecodeString(s); err != nil || len(b) != 32 {
		return CodeValue, fmt.Errorf("is no SHA-256; write 64 hexadecimal digits")
	}
	return "", nil
}

func checkUpstream(s string) (Code, error) {
	u, err := url.Parse(s)
	switch {
	case s == "demo:":
	case err == nil && u.Scheme == "unix" && u.Path != "":
	case err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		return CodeValue, fmt.Errorf(`%q is no upstream; write "http://127.0.0.1:9000", "https://…", "h2c://…", "unix:/path" or "demo:"`, s)
	case u.Host == "":
		return CodeValue, fmt.Errorf("%q names no host", s)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return CodeValue, fmt.Errorf("an upstream is a scheme, a host, a port and a path, without password, query or fragment")
	}
	return "", nil
}

func checkURI(s string) (Code, error) {
	if u, err := url.Parse(s); err != nil || s == "" || strings.ContainsAny(s, " \t\r\n") || u.Scheme == "" && !strings.HasPrefix(s, "/") {
		return CodeValue, fmt.Errorf(`%q is no URI, such as "urn:example:error:rate-limit"`, s)
	}
	return "", nil
}

// checkBaseURL takes an address that endpoints follow. The text {model} may stand in it.
func checkBaseURL(s string) (Code, error) {
	u, err := url.Parse(strings.ReplaceAll(s, "{model}", "model"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return CodeValue, fmt.Errorf(`%q is no base URL; write "https://api.openai.com/v1", without a password`, s)
	}
	return "", nil
}

// checkZone takes the name of a time zone.
func checkZone(s string) (Code, error) {
	if _, err := time.LoadLocation(s); err != nil || s == "Local" {
		return CodeValue, fmt.Errorf(`%q is no time zone; write a name such as "Europe/Berlin", or "UTC"`, s)
	}
	return "", nil
}
