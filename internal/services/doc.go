// Package services starts once each server that tests drive, in the way in which those
// tests start them, and says what answers. "make services" runs it.
package services
