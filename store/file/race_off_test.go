//go:build !race

package file_test

const scale = 1
