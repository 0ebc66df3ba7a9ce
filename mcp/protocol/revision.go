// Package protocol holds what the revisions of the Model Context Protocol fix in words and
// numbers: versions and their eras, HTTP headers, keys of _meta, and which error each
// situation is in each era.
//
// Sources are the specification's pages docs/specification/<version>/ in
// modelcontextprotocol/modelcontextprotocol.
package protocol

import "slices"

// The revisions.
const (
	V20241105 = "2024-11-05" // HTTP with SSE
	V20250326 = "2025-03-26" // Streamable HTTP; the only one with batches
	V20250618 = "2025-06-18"
	V20251125 = "2025-11-25"
	V20260728 = "2026-07-28" // no handshake, no sessions
)

// versions are the revisions, newest first.
var versions = []string{V20260728, V20251125, V20250618, V20250326, V20241105}

// An Era is one of the two protocols that the revisions amount to.
type Era uint8

// The eras.
const (
	Legacy Era = iota // up to 2025-11-25: initialize, sessions, requests from servers
	Modern            // from 2026-07-28: every request describes itself
)

// String returns "legacy" or "modern", as configuration spells them.
func (e Era) String() string {
	if e == Modern {
		return "modern"
	}
	return "legacy"
}

// EraOf returns the era of a version. What is no date is legacy, as is no version; a
// revision that is newer than all known ones is modern.
func EraOf(version string) Era {
	if isDate(version) && version >= V20260728 {
		return Modern
	}
	return Legacy
}

// isDate reports whether a version has the form of one: 2006-01-02.
func isDate(v string) bool {
	if len(v) != len(V20241105) {
		return false
	}
	for i := range len(v) {
		if c := v[i]; (i == 4 || i == 7) != (c == '-') || c != '-' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// Known reports whether the version is a published revision.
func Known(version string) bool { return slices.Contains(versions, version) }

// Versions returns the revisions, newest first. The slice is the caller's.
func Versions() []string { return slices.Clone(versions) }

// VersionsOf returns the revisions of one era, newest first.
func VersionsOf(era Era) []string {
	return slices.DeleteFunc(Versions(), func(v string) bool { return EraOf(v) != era })
}

// Negotiate returns the version that answers an initialize: the requested one if it is a
// legacy revision, else the newest of them.
func Negotiate(requested string) string {
	if Known(requested) && EraOf(requested) == Legacy {
		return requested
	}
	return V20251125
}
