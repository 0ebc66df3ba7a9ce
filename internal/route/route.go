// Package route turns the path of a request into one canonical form and chooses the
// most specific of many Ant-style patterns for it.
//
// Two rules keep a path from slipping past its limit. A limit is matched against the
// canonical form, so every spelling of a path meets the same limit. A bypass is granted
// only when the raw form already is canonical, so no spelling can borrow one.
// Matching too much is safe for a limit and a hole for a bypass.
//
// Everything here is safe for concurrent use once it is built.
package route
