// Package dialect knows what clients and providers of language models say to each other:
// which call a request is ([Find]), what it asks for ([Read]), what an answer used
// ([Meter]), and how a refusal or a failure looks to the client ([Fault]).
//
// It never decodes a body into a struct and writes it anew. Bytes pass as they are; what has
// to be changed is cut out and replaced ([Request.Rewrite]), so that identifiers, numbers and
// fields that nobody here knows arrive as they were sent.
//
// The formats are those of the providers' references; facts and cases have their ids in the
// tests. The package makes no request, knows no clock and keeps no state.
package dialect
