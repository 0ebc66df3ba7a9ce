package file

// Datasync is the sync that the store uses, for measuring the disk's own rate of it.
var Datasync = datasync
